//! JMESPath in the texts of classic policies, translated to CEL.
//!
//! Upstream counterpart: none for the translation; the semantics are those of `kyvtest_jmespath` and of Kyverno's substitution
//! of variables (`pkg/engine/variables/vars.go`).
//!
//! Assumptions, beyond what the schema of a kind says:
//! - A field of a custom resource has the type that the expression needs: JMESPath makes null of a list where a map is
//!   expected, CEL makes it an error.
//! - A value from the request has no variables (`{{ }}`) itself and, where it is put into a JMESPath literal, no quotes.
//! - `to_upper` and `to_lower` are about ASCII letters.

mod arithmetic;
mod functions;
mod glob;
mod lists;
mod request;
mod text;
mod types;
mod value;
mod walk;

pub(crate) use glob::{is_glob, matches_glob, text_matches_glob_of};
pub(crate) use text::{data, query, query_on, read_text, text_of};
pub(crate) use types::{Seen, Type, field_of, is_given};
pub(crate) use value::{Missing, Value};
