//! Helpers for strings and numbers: Kubernetes quantities and labels, Kyverno wildcards, Go durations, numbers and
//! quoting, URLs and addresses, semantic versions.

pub mod base64;
pub mod case;
pub mod decimal;
pub mod duration;
pub mod float;
pub mod glob;
pub mod image;
pub mod image_info;
pub mod ip;
pub mod label;
pub mod number;
pub mod path;
pub mod quantity;
pub mod quote;
pub mod semver;
pub mod semver_range;
pub mod shell;
pub mod time;
pub mod time_layout;
pub mod url;
pub mod variable;
pub mod wildcard;
pub mod x509;
