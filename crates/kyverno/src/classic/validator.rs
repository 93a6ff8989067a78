//! The checks of a classic rule on one request: deny, patterns, loops.
//!
//! Upstream counterpart: `validator` in `pkg/engine/handlers/validation/validate_resource.go`, texts included.
//! Deviations: a message that is not a string, on which upstream panics, is an error of the rule; loops end at
//! [`ELEMENTS`].

use super::{
    condition::{Conditions, join},
    context::Context,
    observe::pattern,
    pattern::{PatternError, match_pattern},
    validation::{Check, Loop, Validation},
    variables::{substitute_all, substitute_preconditions, substitute_string},
};
use kyvtest_cel::observe::BranchOutcome;
use kyvtest_go_compat::value::Data;
use kyvtest_model::{kube::Operation, verdict::Status};

/// How many elements all loops of a rule together may have.
const ELEMENTS: usize = 100_000;

/// The result of a check: status and message.
pub(crate) type ValidatorResult = (Status, String);

/// The result of a rule that ended before its check: in its context, its preconditions or the substitution of variables.
pub(super) struct Unchecked(pub(super) ValidatorResult);

/// A rule's checks at work.
pub(super) struct Validator<'v, 'o> {
    pub(super) rule: &'v str,
    pub(super) message: &'v str,
    pub(super) context: &'v mut Context<'o>,
    /// The new object; null if absent.
    pub(super) resource: &'v Data,
    pub(super) operation: Operation,
    /// The pattern of the rule once its variables have values: a second look keeps them.
    pub(super) substituted: &'v mut Option<Data>,
    pub(super) elements: usize,
}

impl Validator<'_, '_> {
    /// Runs a check with its context and preconditions; `None` if it produces no result.
    pub(super) fn validate(
        &mut self,
        validation: &Validation,
        element: Option<&Data>,
        nesting: usize,
    ) -> Result<Option<ValidatorResult>, Unchecked> {
        if let Err(error) = self.context.load_entries(&validation.entries) {
            let text = format!("failed to load context: {error}");
            return Err(Unchecked((Status::Error, text)));
        }
        if let Some(result) = unmet(validation.preconditions.as_ref(), self.context) {
            return Err(Unchecked(result));
        }
        Ok(match &validation.check {
            Check::Deny(conditions) => Some(self.deny(conditions.as_ref())),
            Check::Pattern(written) => {
                let pattern = self.substitute(written, nesting)?;
                let target = self.target(element);
                target.map(|target| self.pattern(target, &pattern))
            }
            Check::AnyPattern(written) => {
                let patterns = self.substitute(written, nesting)?;
                let target = self.target(element);
                target.map(|target| self.any_pattern(target, &patterns, written))
            }
            Check::Foreach(loops) => self.foreach(loops, element, nesting),
            Check::Nothing => None,
        })
    }

    /// What a pattern is about: the element of a loop, else the resource; nothing if that is deleted.
    fn target<'t>(&'t self, element: Option<&'t Data>) -> Option<Data> {
        match element {
            Some(element) => Some(element.clone()),
            None if self.operation == Operation::Delete => None,
            None => Some(self.resource.clone()),
        }
    }

    fn substitute(&mut self, pattern: &Data, nesting: usize) -> Result<Data, Unchecked> {
        let before = self.substituted.take().filter(|_| nesting == 0);
        let pattern = before.as_ref().unwrap_or(pattern);
        let made = substitute_all(pattern, self.context)
            .map_err(|error| Unchecked((Status::Error, format!("variable substitution failed: {error}"))))?;
        if nesting == 0 {
            *self.substituted = Some(made.clone());
        }
        Ok(made)
    }

    fn deny(&mut self, conditions: Option<&Conditions>) -> ValidatorResult {
        let (denied, message) = match conditions.map(|conditions| evaluate(conditions, self.context)) {
            None => (true, String::new()),
            Some(Ok((holds, message))) => (holds, message),
            Some(Err(error)) => {
                return (Status::Error, format!("failed to check deny conditions: {error}"));
            }
        };
        if !denied {
            return (Status::Pass, format!("validation rule '{}' passed.", self.rule));
        }
        (Status::Fail, self.deny_message(message))
    }

    fn deny_message(&mut self, message: String) -> String {
        let text = join(vec![self.message, &message], "; ");
        if text.is_empty() {
            return format!("validation error: rule {} failed", self.rule);
        }
        match substitute_string(&text, self.context) {
            Ok(Data::String(text)) => text.to_string(),
            Ok(_) => "the produced message didn't resolve to a string, check your policy definition.".to_owned(),
            Err(_) => message,
        }
    }

    fn pattern(&mut self, target: Data, pattern: &Data) -> ValidatorResult {
        let Err(error) = match_pattern(&target, pattern) else {
            return (Status::Pass, format!("validation rule '{}' passed.", self.rule));
        };
        if error.skip {
            return (Status::Skip, error.message);
        }
        let status = if error.path.is_empty() {
            Status::Error
        } else {
            Status::Fail
        };
        self.result_with(status, |rule, message| pattern_message(rule, message, &error))
    }

    fn any_pattern(&mut self, target: Data, patterns: &Data, written: &Data) -> ValidatorResult {
        // Upstream writes them as JSON and reads them again.
        let patterns = patterns.with_doubles();
        let Some(patterns) = patterns.as_list() else {
            let found = match patterns {
                Data::Map(_) => "object",
                Data::String(_) => "string",
                Data::Bool(_) => "bool",
                _ => "number",
            };
            let text = format!(
                "failed to deserialize anyPattern, expected type array: json: cannot unmarshal {found} into Go value of \
                 type []interface {{}}"
            );
            return (Status::Error, text);
        };
        let rule = self.rule;
        let (mut failed, mut skipped) = (Vec::new(), Vec::new());
        for (i, pattern) in patterns.iter().enumerate() {
            let matched = match_pattern(&target, pattern);
            self.note_pattern(written, i, &matched);
            match matched {
                Ok(()) => {
                    return (
                        Status::Pass,
                        format!("validation rule '{rule}' anyPattern[{i}] passed."),
                    );
                }
                Err(error) if error.skip => skipped.push(format!("rule {rule}[{i}] skipped: {error}")),
                Err(error) if error.path.is_empty() => failed.push(format!("rule {rule}[{i}] failed: {error}")),
                Err(error) => failed.push(format!("rule {rule}[{i}] failed at path {}", error.path)),
            }
        }
        if !failed.is_empty() {
            let failed = failed.join(" ");
            return self.result_with(Status::Fail, |rule, message| {
                any_pattern_message(rule, message, &failed)
            });
        }
        if !skipped.is_empty() {
            return (Status::Skip, skipped.join(" "));
        }
        (Status::Pass, self.message.to_owned())
    }

    /// Reports the result of one of several patterns to the observer.
    fn note_pattern(&self, written: &Data, number: usize, matched: &Result<(), PatternError>) {
        if let (Some(observer), Some(pattern)) = (self.context.observer(), pattern(written, number)) {
            let way = match matched {
                Ok(()) => BranchOutcome::True,
                Err(error) if error.skip => BranchOutcome::Other,
                Err(_) => BranchOutcome::False,
            };
            observer.note(pattern, way);
        }
    }

    /// Puts the rule's message into a text.
    fn result_with(&mut self, status: Status, text: impl FnOnce(&str, Message<'_>) -> String) -> ValidatorResult {
        if self.message.is_empty() {
            return (status, text(self.rule, Message::None));
        }
        match substitute_string(self.message, self.context) {
            Ok(Data::String(message)) => (status, text(self.rule, Message::Text(&message))),
            Ok(other) => {
                let found = other.go_type();
                let text = format!("the message of rule {} is not a string but of type {found}", self.rule);
                (Status::Error, text)
            }
            Err(_) => (status, text(self.rule, Message::Unknown)),
        }
    }

    fn foreach(&mut self, loops: &[Loop], element: Option<&Data>, nesting: usize) -> Option<ValidatorResult> {
        let mut applied = false;
        let mut failed = None;
        for entry in loops {
            let elements = match self.context.query(&entry.list) {
                Ok(Data::List(elements)) => elements.to_vec(),
                Ok(single) => vec![single],
                Err(error) => {
                    let error = error.to_string();
                    // A missing field has no elements. Upstream decides by the message (`validateForEach` in
                    // `validate_resource.go`, line 229), which may quote a policy's own words.
                    if !error.contains("Unknown key") {
                        failed = Some(error);
                    } else if let Some(observer) = self.context.observer() {
                        observer.note(entry, BranchOutcome::Empty);
                    }
                    continue;
                }
            };
            if let (true, Some(observer)) = (elements.is_empty(), self.context.observer()) {
                observer.note(entry, BranchOutcome::Empty);
            }
            self.context.checkpoint();
            let result = self.each(entry, &elements, element, nesting);
            self.context.restore();
            match result {
                Ok(any) => applied |= any,
                Err(result) => return Some(result),
            }
        }
        match failed {
            _ if applied => Some((Status::Pass, "rule passed".to_owned())),
            Some(error) => Some((Status::Error, format!("failed to evaluate list: {error}"))),
            None => None,
        }
    }

    /// Checks the elements of a list. Returns whether any was checked, or the first result that is not a pass.
    fn each(
        &mut self,
        entry: &Loop,
        elements: &[Data],
        outer: Option<&Data>,
        nesting: usize,
    ) -> Result<bool, ValidatorResult> {
        let mut applied = false;
        for (i, element) in elements.iter().enumerate() {
            if element.is_null() {
                continue;
            }
            self.elements += 1;
            if self.elements > ELEMENTS {
                let text = format!("failed to process foreach: more than {ELEMENTS} elements");
                return Err((Status::Error, text));
            }
            self.context.reset();
            let element = element.with_doubles();
            self.context.add_element(&element, i, nesting);
            let is_map = element.as_map().is_some();
            if entry.element_scope == Some(true) && !is_map {
                let text = format!(
                    "failed to process foreach: cannot use elementScope=true foreach rules for elements that are not \
                     maps, expected type=map got type={}",
                    element.go_type()
                );
                return Err((Status::Error, text));
            }
            let scope = if entry.element_scope.unwrap_or(is_map) {
                Some(&element)
            } else {
                outer
            };
            let result = self.validate(&entry.validation, scope, nesting + 1);
            let result = result.unwrap_or_else(|Unchecked(result)| Some(result));
            if let Some(observer) = self.context.observer() {
                let way = match &result {
                    Some((Status::Pass, _)) => BranchOutcome::True,
                    Some((Status::Fail, _)) => BranchOutcome::False,
                    Some((Status::Error, _)) => BranchOutcome::Error,
                    _ => BranchOutcome::Other,
                };
                observer.note(entry, way);
            }
            match result {
                None | Some((Status::Skip, _)) => {}
                Some((Status::Pass, _)) => applied = true,
                // Upstream decides by the message (`validateElements`, line 286), also for nested loops.
                Some((Status::Error, text)) if text.contains("failed to evaluate preconditions") => {}
                Some((status, text)) => return Err((status, format!("validation failure: {text}"))),
            }
        }
        Ok(applied)
    }
}

/// The message of a rule as far as it is known.
enum Message<'m> {
    None,
    Text(&'m str),
    /// Its variables have no values.
    Unknown,
}

fn pattern_message(rule: &str, message: Message<'_>, error: &PatternError) -> String {
    let cause = if error.path.is_empty() {
        format!("execution error: {error}")
    } else {
        format!("failed at path {}", error.path)
    };
    match message {
        Message::None => format!("validation error: rule {rule} {cause}"),
        Message::Unknown => {
            format!("validation error: variables substitution error in rule {rule} execution error: {error}")
        }
        Message::Text(text) => {
            let dot = if text.ends_with('.') { "" } else { "." };
            format!("validation error: {text}{dot} rule {rule} {cause}")
        }
    }
}

fn any_pattern_message(rule: &str, message: Message<'_>, failed: &str) -> String {
    match message {
        Message::None => format!("validation error: {failed}"),
        Message::Unknown => {
            format!("validation error: variables substitution error in rule {rule} execution error: {failed}")
        }
        Message::Text(text) => {
            let dot = if text.ends_with('.') { "" } else { "." };
            format!("validation error: {text}{dot} {failed}")
        }
    }
}

/// Whether a block of conditions holds, and its message.
pub(crate) fn evaluate(conditions: &Conditions, context: &mut Context<'_>) -> Result<(bool, String), String> {
    let observer = context.observer();
    let mut substitute = |data: &Data| substitute_preconditions(data, context).map_err(|error| error.to_string());
    let result = conditions.evaluate_observed(&mut substitute, observer)?;
    Ok((result.holds, result.message))
}

/// The result of a rule whose preconditions do not hold or cannot be evaluated; `None` if they hold.
pub(crate) fn unmet(conditions: Option<&Conditions>, context: &mut Context<'_>) -> Option<ValidatorResult> {
    match evaluate(conditions?, context) {
        Ok((true, _)) => None,
        Ok((false, message)) => {
            let text = join(vec!["preconditions not met", &message], "; ");
            Some((Status::Skip, text))
        }
        Err(error) => Some((Status::Error, format!("failed to evaluate preconditions: {error}"))),
    }
}
