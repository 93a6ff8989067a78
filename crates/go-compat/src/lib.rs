//! Go's behaviour as far as it shows in verdicts and messages (strings, numbers, regular expressions, YAML, JSON), and
//! the diagnostics that point into YAML sources.
//!
//! Upstream counterpart: Go's standard library and the YAML, JSON and quantity packages of Kubernetes, one module each.

pub mod diagnostic;
pub mod regex;
pub mod text;
pub mod value;
pub mod yaml;
