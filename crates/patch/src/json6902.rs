use kyvtest_go_compat::value::Value;
use thiserror::Error;

use crate::Patched;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    #[error("{0}")]
    Patch(String),
    #[error("panic: {0}")]
    Panic(String),
}

pub fn apply_text(_resource: Value<'_>, _patches: &str) -> Result<Patched, Error> {
    Err(Error::Patch("todo".to_owned()))
}
