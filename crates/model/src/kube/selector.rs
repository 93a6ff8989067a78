//! Label selectors: `matchLabels` and `matchExpressions`, their validation and matching.
//!
//! Upstream counterpart: `metav1.LabelSelectorAsSelector` and `k8s.io/apimachinery/pkg/labels`. A selector is validated
//! once, when it is parsed; an invalid one keeps its error, because engines report it only if the rest of a policy
//! matches.

use std::fmt;

use super::{Atom, Facts, Pairs, Pattern};
use kyvtest_go_compat::text::{
    label::{Wording, key_problems, value_problems},
    quote::{go_json, quote},
};
use kyvtest_go_compat::value::{Map, Value};

/// A selector that Kubernetes rejects. It is reported only if everything else selects the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidSelector<'p> {
    /// What is wrong with it.
    pub error: &'p str,
}

impl fmt::Display for InvalidSelector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Internal error occurred: {}", self.error)
    }
}

impl std::error::Error for InvalidSelector<'_> {}

/// The relation of a label to the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}

/// An entry of `matchExpressions` as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Expression {
    pub key: String,
    /// As written.
    pub operator: String,
    pub values: Vec<String>,
}

/// One requirement of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub key: String,
    /// `None` if it is unknown.
    pub operator: Option<Operator>,
    /// The operator as written; `In` for a pair of `matchLabels`.
    pub word: String,
    /// A pair of `matchLabels` is `In` with its value.
    pub values: Vec<String>,
    /// Whether it comes from `matchLabels`.
    pub is_pair: bool,
    error: Option<Box<str>>,
}

impl Requirement {
    /// The validation error.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Whether the labels meet the requirement; `None` means no labels at all.
    pub fn holds<'p>(&'p self, pairs: Option<Pairs>, facts: &mut impl Facts<'p>) -> bool {
        let mut has = || pairs.filter(|&pairs| facts.ask(Atom::Has(pairs, &self.key)));
        match self.operator {
            Some(Operator::Exists) => has().is_some(),
            Some(Operator::DoesNotExist) => has().is_none(),
            Some(operator @ (Operator::In | Operator::NotIn)) => {
                let listed = has().is_some_and(|pairs| {
                    let mut values = self.values.iter();
                    values.any(|value| facts.ask(Atom::Value(pairs, &self.key, Pattern::Exact(value))))
                });
                listed == (operator == Operator::In)
            }
            None => false,
        }
    }
}

/// A label selector. All requirements must hold; without any it matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

impl LabelSelector {
    /// Creates a selector from pairs and expressions, in source order.
    pub fn new(
        match_labels: impl IntoIterator<Item = (String, String)>,
        match_expressions: impl IntoIterator<Item = Expression>,
    ) -> Self {
        let pairs = match_labels.into_iter().map(|(key, value)| {
            let values = vec![value];
            Requirement {
                error: requirement_error(&key, Operator::In, &values).map(Into::into),
                key,
                operator: Some(Operator::In),
                word: "In".to_owned(),
                values,
                is_pair: true,
            }
        });
        let expressions = match_expressions.into_iter().map(|expression| {
            let Expression {
                key,
                operator: word,
                values,
            } = expression;
            let operator = match word.as_str() {
                "In" => Some(Operator::In),
                "NotIn" => Some(Operator::NotIn),
                "Exists" => Some(Operator::Exists),
                "DoesNotExist" => Some(Operator::DoesNotExist),
                _ => None,
            };
            let error = match operator {
                Some(operator) => requirement_error(&key, operator, &values),
                None => Some(format!("{} is not a valid label selector operator", quote(&word))),
            };
            Requirement {
                key,
                operator,
                word,
                values,
                is_pair: false,
                error: error.map(Into::into),
            }
        });
        Self {
            requirements: pairs.chain(expressions).collect(),
        }
    }

    /// The requirements: those of `matchLabels` first.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Without requirements it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The first validation error, with the API server's message.
    pub fn error(&self) -> Option<&str> {
        self.requirements.iter().find_map(Requirement::error)
    }

    /// Whether the labels of an object outside the request meet all requirements.
    pub fn selects(&self, object: Value<'_>) -> bool {
        let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
        self.matches(Some(Pairs::NewLabels), &mut Labels(labels))
    }

    /// Whether labels meet all requirements, by Kubernetes' rules; `None` means no labels at all. The caller must
    /// reject invalid selectors first.
    pub fn matches<'p>(&'p self, pairs: Option<Pairs>, facts: &mut impl Facts<'p>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.holds(pairs, facts))
    }
}

/// Facts about the labels of one object.
struct Labels<'v>(Option<Map<'v>>);

impl<'p> Facts<'p> for Labels<'_> {
    fn ask(&mut self, atom: Atom<'p>) -> bool {
        let value = |key: &str| self.0.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        match atom {
            Atom::Has(_, key) => value(key).is_some(),
            Atom::Value(_, key, pattern) => value(key).is_some_and(|value| pattern.matches(value)),
            _ => false,
        }
    }
}

/// The API server's message for an invalid requirement.
pub fn requirement_error(key: &str, operator: Operator, values: &[String]) -> Option<String> {
    let mut errors = Vec::new();
    let mut problems = Vec::new();
    key_problems(key, Wording::LabelKey, &mut problems);
    if !problems.is_empty() {
        errors.push(format!("key: Invalid value: {}: {}", quote(key), problems.join("; ")));
    }
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => errors
            .push("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned()),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => errors.push(format!(
            "values: Invalid value: {}: values set must be empty for exists and does not exist",
            go_list(values)
        )),
        _ => {}
    }
    for (i, value) in values.iter().enumerate() {
        problems.clear();
        value_problems(value, Wording::LabelKey, &mut problems);
        if !problems.is_empty() {
            errors.push(format!(
                "values[{i}][{key}]: Invalid value: {}: {}",
                quote(value),
                problems.join("; ")
            ));
        }
    }
    match errors.len() {
        0 => None,
        1 => errors.pop(),
        _ => Some(format!("[{}]", errors.join(", "))),
    }
}

/// A list of strings as Go's `encoding/json` writes it.
fn go_list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| go_json(value)).collect();
    format!("[{}]", values.join(","))
}
