//! Messages of rules: a constant text, or a `messageExpression` if they have variables.
//!
//! Upstream counterpart: `pkg/engine/handlers/validation/validate_resource.go`. If a variable has no value, both engines fall back
//! to another text; the texts differ.

use crate::{
    Expr, Refusal,
    names::Names,
    query::{self},
};

/// The message of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Constant(String),
    Expression(Expr),
}

/// Translates a message.
///
/// # Errors
/// A variable without a translation.
pub(crate) fn message(text: &str, names: &mut Names<'_>) -> Result<Message, Refusal> {
    if !text.contains("{{") {
        return Ok(Message::Constant(text.to_owned()));
    }
    let value = query::read_text(text, names)?;
    Ok(Message::Expression(query::text_of(&value)?))
}
