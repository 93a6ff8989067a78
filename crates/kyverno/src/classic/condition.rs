//! `preconditions` and `deny.conditions`: keys, operators and values, in `any` and `all` or in a list.
//!
//! Upstream counterpart: `pkg/engine/variables/evaluate.go`, `pkg/utils/conditions`. What upstream panics about (a list with
//! something other than texts as the key of `In`) is an error.

mod membership;
mod operator;

use operator::Operator;

use kyvtest_cel::{
    observe::{BranchOutcome, Observer},
    trace::Evaluation,
};
use kyvtest_go_compat::value::{Data, Value};

/// Replaces variables by their values; returns the resolved value or Kyverno's error.
pub(crate) type Substitute<'s> = dyn FnMut(&Data) -> Result<Data, String> + 's;

#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What is compared.
    pub key: Data,
    /// How.
    pub operator: String,
    /// With what.
    pub value: Data,
    /// The message of the violation if this condition decides.
    pub message: String,
}

/// The conditions of one block.
#[derive(Debug, Clone, PartialEq)]
pub enum Conditions {
    /// All must hold: the older form.
    List(Vec<Condition>),
    /// One of `any`, if that is there, and all of `all`.
    AnyAll {
        /// `any`; there and empty, nothing holds.
        any: Option<Vec<Condition>>,
        /// `all`
        all: Vec<Condition>,
    },
}

/// Whether a block holds, and the messages of what decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionResult {
    pub holds: bool,
    /// The messages, joined.
    pub message: String,
}

/// Converts a value to the types of a policy: a scalar number becomes a double, numbers inside lists and maps stay
/// integers if possible.
pub(crate) fn policy_value(value: Value<'_>) -> Data {
    match value {
        Value::Int(value) => Data::Double(value as f64),
        Value::Uint(value) => Data::Double(value as f64),
        value => Data::from(value),
    }
}

impl Condition {
    /// Reads a condition as a policy writes it.
    pub fn read(value: Value<'_>) -> Self {
        let part = |name: &str| value.get(name).map_or(Data::Null, policy_value);
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            key: part("key"),
            operator: text("operator"),
            value: part("value"),
            message: text("message"),
        }
    }

    fn list(value: Value<'_>) -> Vec<Self> {
        let items = value
            .as_list()
            .into_iter()
            .flat_map(kyvtest_go_compat::value::List::iter);
        items.map(Self::read).collect()
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// If a variable has no value or the operator is unknown.
    pub fn evaluate(&self, substitute: &mut Substitute<'_>) -> Result<bool, String> {
        let key = substitute(&self.key)
            .map_err(|error| format!("failed to substitute variables in condition key: {error}"))?;
        let value = substitute(&self.value)
            .map_err(|error| format!("failed to substitute variables in condition value: {error}"))?;
        let Some(operator) = Operator::read(&self.operator) else {
            // Upstream prints an error that is none.
            return Err("failed to create handler for condition operator: %!w(<nil>)".to_owned());
        };
        operator.evaluate(&key, &value)
    }
}

impl Condition {
    fn observed(&self, substitute: &mut Substitute<'_>, observer: Option<&Observer>) -> Result<bool, String> {
        let holds = self.evaluate(substitute);
        if let Some(observer) = observer {
            let way = match holds {
                Ok(true) => BranchOutcome::True,
                Ok(false) => BranchOutcome::False,
                Err(_) => BranchOutcome::Error,
            };
            observer.note(self, way);
            if let Some(trace) = observer.trace() {
                let mut part = |data: &Data| {
                    (
                        data.to_json(),
                        substitute(data).map_or_else(|error| error, |data| data.to_json()),
                    )
                };
                let parts = [part(&self.key), part(&self.value)];
                let text = format!("{} {} {}", parts[0].0, self.operator, parts[1].0);
                trace.record(Evaluation {
                    text,
                    value: match &holds {
                        Ok(holds) => holds.to_string(),
                        Err(error) => format!("error: {error}"),
                    },
                    parts: parts.into_iter().filter(|(written, value)| written != value).collect(),
                });
            }
        }
        holds
    }
}

impl Conditions {
    /// Reads a block as a policy writes it: a list, or `any` and `all`.
    pub fn read(value: Value<'_>) -> Self {
        if let Value::List(_) = value {
            return Self::List(Condition::list(value));
        }
        let part = |name: &str| value.get(name).filter(|part| !part.is_null());
        Self::AnyAll {
            any: part("any").map(Condition::list),
            all: part("all").map(Condition::list).unwrap_or_default(),
        }
    }

    /// Whether the block holds.
    ///
    /// # Errors
    /// As [`Condition::evaluate`].
    pub fn evaluate(&self, substitute: &mut Substitute<'_>) -> Result<ConditionResult, String> {
        self.evaluate_observed(substitute, None)
    }

    /// The same with an observer.
    ///
    /// # Errors
    /// As [`Condition::evaluate`].
    pub(crate) fn evaluate_observed(
        &self,
        substitute: &mut Substitute<'_>,
        observer: Option<&Observer>,
    ) -> Result<ConditionResult, String> {
        match self {
            Self::List(conditions) => {
                let mut messages = Vec::new();
                for condition in conditions {
                    if !condition.observed(substitute, observer)? {
                        return Ok(ConditionResult {
                            holds: false,
                            message: condition.message.clone(),
                        });
                    }
                    messages.push(condition.message.as_str());
                }
                Ok(ConditionResult {
                    holds: true,
                    message: join(messages, ";"),
                })
            }
            Self::AnyAll { any, all } => any_all(any.as_deref(), all, substitute, observer),
        }
    }

    /// Whether the conditions of an exception hold: `all` is evaluated first, and an empty `any` holds.
    ///
    /// # Errors
    /// As [`Condition::evaluate`].
    pub(crate) fn lift(&self, substitute: &mut Substitute<'_>) -> Result<bool, String> {
        let (any, all) = match self {
            Self::List(all) => (&[][..], all),
            Self::AnyAll { any, all } => (any.as_deref().unwrap_or_default(), all),
        };
        for condition in all {
            if !condition.evaluate(substitute)? {
                return Ok(false);
            }
        }
        for condition in any {
            if condition.evaluate(substitute)? {
                return Ok(true);
            }
        }
        Ok(any.is_empty())
    }
}

fn any_all(
    any: Option<&[Condition]>,
    all: &[Condition],
    substitute: &mut Substitute<'_>,
    observer: Option<&Observer>,
) -> Result<ConditionResult, String> {
    let mut holding = Vec::new();
    let mut failing = Vec::new();
    let mut any_holds = any.is_none();
    for condition in any.unwrap_or_default() {
        if condition.observed(substitute, observer)? {
            any_holds = true;
            holding.push(condition.message.as_str());
            break;
        }
        failing.push(condition.message.as_str());
    }
    let mut all_hold = true;
    for condition in all {
        if !condition.observed(substitute, observer)? {
            all_hold = false;
            failing.push(condition.message.as_str());
            break;
        }
        holding.push(condition.message.as_str());
    }
    let holds = any_holds && all_hold;
    Ok(ConditionResult {
        holds,
        message: join(if holds { holding } else { failing }, "; "),
    })
}

/// Joins the texts that are not empty.
pub(crate) fn join(mut texts: Vec<&str>, separator: &str) -> String {
    texts.retain(|text| !text.is_empty());
    texts.join(separator)
}
