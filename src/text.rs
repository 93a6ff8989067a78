//! Leaf helpers on strings and numbers: Kubernetes quantity, Kyverno wildcard, Kubernetes labels, Go durations, numbers, quoting, URLs and
//! addresses, semantic versions.

pub(crate) mod base64;
pub(crate) mod case;
pub mod decimal;
pub mod duration;
pub mod float;
pub(crate) mod image;
pub mod image_info;
pub(crate) mod ip;
pub(crate) mod label;
pub mod number;
pub(crate) mod path;
pub mod quantity;
pub mod quote;
pub(crate) mod semver;
pub(crate) mod semver_range;
pub mod shell;
pub mod time;
pub(crate) mod time_layout;
pub(crate) mod url;
pub(crate) mod variable;
pub mod wildcard;
pub(crate) mod x509;
