//! Field errors with the API server's messages.
//!
//! Upstream counterpart: `k8s.io/apimachinery/pkg/util/validation/field`.

use kyvtest_go_compat::text::quote::{go_json, quote};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field's path: `spec.validations[0].expression`.
    pub field: String,
    /// May be empty if the field is just missing.
    pub detail: String,
    /// The complete message, with path, kind of error and value.
    pub text: String,
}

/// Collects errors in order.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    /// Adds an error with `body` between path and detail.
    pub(super) fn push(&mut self, field: &str, body: String, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        self.0.push(FieldError {
            text: format!("{field}: {body}{colon}{detail}"),
            field: field.to_owned(),
            detail: detail.to_owned(),
        });
    }

    pub(super) fn required(&mut self, field: &str, detail: &str) {
        self.push(field, "Required value".to_owned(), detail);
    }

    pub(super) fn forbidden(&mut self, field: &str, detail: &str) {
        self.push(field, "Forbidden".to_owned(), detail);
    }

    pub(super) fn internal(&mut self, field: &str, detail: &str) {
        self.push(field, "Internal error".to_owned(), detail);
    }

    pub(super) fn duplicate(&mut self, field: &str, value: &str) {
        self.push(field, format!("Duplicate value: {}", quote(value)), "");
    }

    pub(super) fn invalid(&mut self, field: &str, value: &str, detail: &str) {
        self.push(field, format!("Invalid value: {}", quote(value)), detail);
    }

    /// Adds an error about a list of strings.
    pub(super) fn invalid_list(&mut self, field: &str, values: &[&str], detail: &str) {
        let values: Vec<String> = values.iter().map(|value| go_json(value)).collect();
        self.invalid_json(field, &format!("[{}]", values.join(",")), detail);
    }

    /// Adds an error about a value that is shown as JSON.
    pub(super) fn invalid_json(&mut self, field: &str, json: &str, detail: &str) {
        self.push(field, format!("Invalid value: {json}"), detail);
    }

    /// Adds an error for each problem; empties the list.
    pub(super) fn all_invalid(&mut self, field: &str, value: &str, problems: &mut Vec<String>) {
        for problem in problems.drain(..) {
            self.invalid(field, value, &problem);
        }
    }

    /// Adds one error for all problems, if there are any; empties the list.
    pub(super) fn joined_invalid(&mut self, field: &str, value: &str, before: &str, problems: &mut Vec<String>) {
        if !problems.is_empty() {
            self.invalid(field, value, &format!("{before}{}", problems.join(",")));
            problems.clear();
        }
    }

    /// Adds an error unless the value is one of these.
    pub(super) fn supported(&mut self, field: &str, value: &str, values: &[&str]) {
        if !values.contains(&value) {
            let quoted: Vec<String> = values.iter().map(|value| quote(value)).collect();
            let detail = format!("supported values: {}", quoted.join(", "));
            self.push(field, format!("Unsupported value: {}", quote(value)), &detail);
        }
    }

    /// All errors, and their combined message: several are a list without repetitions.
    pub(super) fn finish(self) -> (Vec<FieldError>, String) {
        let texts = self.0.iter().map(|error| error.text.clone());
        let text = kyvtest_cel::admission::aggregate(texts);
        (self.0, text)
    }
}
