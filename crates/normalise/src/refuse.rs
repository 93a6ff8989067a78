//! Errors of the API server.
//!
//! Upstream counterpart: `metav1.Status` with its causes, and `field.Error` of apimachinery.

use std::fmt;

/// The stage at which a request is rejected, and its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The body cannot be decoded (400).
    Decode,
    /// The body contradicts the request's URL (400).
    Request,
    /// A mutating admission plugin rejects it (403).
    Admission,
    /// The namespace does not exist (404).
    NotFound,
    /// The object already exists, or has changed since (409).
    Conflict,
    /// Validation of the object fails (422).
    Invalid,
    /// The server itself fails (500).
    Other,
}

impl Stage {
    /// HTTP status.
    pub fn code(self) -> u16 {
        match self {
            Stage::Decode | Stage::Request => 400,
            Stage::Admission => 403,
            Stage::NotFound => 404,
            Stage::Conflict => 409,
            Stage::Invalid => 422,
            Stage::Other => 500,
        }
    }

    /// The reason of the API's status.
    pub fn reason(self) -> &'static str {
        match self {
            Stage::Decode | Stage::Request => "BadRequest",
            Stage::Admission => "Forbidden",
            Stage::NotFound => "NotFound",
            Stage::Conflict => "Conflict",
            Stage::Invalid => "Invalid",
            Stage::Other => "InternalError",
        }
    }

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Decode => "decode",
            Stage::Request => "request",
            Stage::Admission => "admission",
            Stage::NotFound => "not-found",
            Stage::Conflict => "conflict",
            Stage::Invalid => "invalid",
            Stage::Other => "other",
        }
    }
}

/// Kind of a validation error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Required,
    Invalid,
    Duplicate,
    Forbidden,
    NotFound,
    NotSupported,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

impl Reason {
    /// Upstream's `CauseType`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Required => "FieldValueRequired",
            Reason::Invalid => "FieldValueInvalid",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::NotFound => "FieldValueNotFound",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
            Reason::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Reason::Required => "Required value",
            Reason::Invalid => "Invalid value",
            Reason::Duplicate => "Duplicate value",
            Reason::Forbidden => "Forbidden",
            Reason::NotFound => "Not found",
            Reason::NotSupported => "Unsupported value",
            Reason::TooLong => "Too long",
            Reason::TooMany => "Too many",
            Reason::TypeInvalid => "Invalid value",
            Reason::Internal => "Internal error",
        }
    }
}

/// One validation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Path such as `spec.containers[0].image`.
    pub field: String,
    pub reason: Reason,
    /// Details after the reason; may be empty.
    pub detail: String,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.reason.text())?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// An object that the API server rejects before validating admission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    pub stage: Stage,
    /// Upstream's wording, as far as known.
    pub message: String,
    /// Errors of validation; empty for other stages.
    pub errors: Vec<Cause>,
}

impl Refused {
    pub(crate) fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self {
            stage,
            message: message.into(),
            errors: Vec::new(),
        }
    }

    pub(crate) fn invalid(kind: &str, name: &str, errors: Vec<Cause>) -> Self {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let list = match &all[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self {
            stage: Stage::Invalid,
            message: format!("{kind} \"{name}\" is invalid: {list}"),
            errors,
        }
    }

    /// HTTP status.
    pub fn code(&self) -> u16 {
        self.stage.code()
    }
}
