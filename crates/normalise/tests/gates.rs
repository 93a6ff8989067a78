//! Gates: every recorded row of `golden/normalise` against the library.

#[path = "gates/support.rs"]
mod support;

#[path = "gates/create.rs"]
mod create;
