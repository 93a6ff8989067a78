//! Gates: every recorded row of `golden/normalise` against the library.

#[path = "gates/support.rs"]
mod support;

#[path = "gates/account.rs"]
mod account;
#[path = "gates/create.rs"]
mod create;
#[path = "gates/update.rs"]
mod update;
#[path = "gates/vectors.rs"]
mod vectors;
