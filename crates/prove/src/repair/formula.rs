//! What a rule of Kyverno's says about the requests of a place, as a formula: negations stand at the leaves only.

use kyvtest_go_compat::text::wildcard::has_wildcard;
use kyvtest_model::kube::{LabelSelector, NAME_LABEL, Operator, Requirement};

/// A statement about a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Formula {
    Known(bool),
    /// All of these.
    All(Vec<Formula>),
    /// One of these.
    Any(Vec<Formula>),
    /// Not this, which is a leaf.
    Not(Box<Formula>),
    /// The object's name has one of these patterns.
    Name(Vec<String>),
    /// The request's namespace has one of these patterns; a Namespace is in itself.
    Namespace(Vec<String>),
    NamespaceLabel(Need),
    /// A label of the object.
    Label(Need),
    /// The object has a label or annotation with these patterns.
    Pair(Entries, String, String),
    /// The user's name has this pattern.
    User(String),
    /// A group of the user has this pattern.
    Group(String),
    /// What no native policy can see.
    Hidden(String),
}

/// Which entries of the object's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Entries {
    Labels,
    Annotations,
}

impl Entries {
    /// The field of `metadata`.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }
}

/// A requirement on a label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) key: String,
    /// Whether the label must be so, or must not.
    pub(super) holds: bool,
    /// The values, of which it must have one; none means any.
    pub(super) values: Vec<String>,
}

impl Need {
    /// A requirement of a selector; `None` for one that Kubernetes refuses.
    fn of(requirement: &Requirement) -> Option<Self> {
        if requirement.error().is_some() {
            return None;
        }
        let holds = matches!(requirement.operator?, Operator::In | Operator::Exists);
        Some(Self {
            key: requirement.key.clone(),
            holds,
            values: requirement.values.clone(),
        })
    }

    /// That the namespace is one of these, or none of these.
    fn names(names: &[String], holds: bool) -> Self {
        Self {
            key: NAME_LABEL.to_owned(),
            holds,
            values: names.to_vec(),
        }
    }

    fn negated(self) -> Self {
        Self {
            holds: !self.holds,
            ..self
        }
    }

    /// The operator of a selector.
    pub(super) const fn operator(&self) -> &'static str {
        match (self.holds, self.values.is_empty()) {
            (true, true) => "Exists",
            (true, false) => "In",
            (false, true) => "DoesNotExist",
            (false, false) => "NotIn",
        }
    }
}

impl Formula {
    pub(super) const TRUE: Self = Self::Known(true);
    pub(super) const FALSE: Self = Self::Known(false);

    /// All of these.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Known(true) => {}
                Self::Known(false) => return Self::FALSE,
                Self::All(inner) => kept.extend(inner),
                part => kept.push(part),
            }
        }
        unique(&mut kept);
        match kept.len() {
            0 => Self::TRUE,
            1 => kept.swap_remove(0),
            _ => Self::All(kept),
        }
    }

    /// One of these.
    pub(super) fn any(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut kept: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Known(false) => {}
                Self::Known(true) => return Self::TRUE,
                Self::Any(inner) => kept.extend(inner),
                part => kept.push(part),
            }
        }
        unique(&mut kept);
        match kept.len() {
            0 => Self::FALSE,
            1 => kept.swap_remove(0),
            _ => Self::Any(kept),
        }
    }

    /// Not this.
    pub(super) fn negate(self) -> Self {
        match self {
            Self::Known(known) => Self::Known(!known),
            Self::All(parts) => Self::any(parts.into_iter().map(Self::negate)),
            Self::Any(parts) => Self::all(parts.into_iter().map(Self::negate)),
            Self::Not(inner) => *inner,
            Self::NamespaceLabel(need) => Self::NamespaceLabel(need.negated()),
            Self::Label(need) => Self::Label(need.negated()),
            leaf @ (Self::Name(_)
            | Self::Namespace(_)
            | Self::Pair(..)
            | Self::User(_)
            | Self::Group(_)
            | Self::Hidden(_)) => Self::Not(Box::new(leaf)),
        }
    }

    /// A selector of labels as Kyverno reads it, with wildcards in pairs.
    pub(super) fn selector(selector: &LabelSelector, of_namespace: bool) -> Self {
        let wild = |requirement: &&Requirement| {
            requirement.is_pair
                && (has_wildcard(&requirement.key) || requirement.values.iter().any(|value| has_wildcard(value)))
        };
        let mut parts = Vec::new();
        for requirement in selector.requirements() {
            if wild(&requirement) {
                let value = requirement.values.first().cloned().unwrap_or_default();
                parts.push(if of_namespace {
                    Self::Hidden("labels of namespaces with wildcards".to_owned())
                } else {
                    Self::Pair(Entries::Labels, requirement.key.clone(), value)
                });
                continue;
            }
            // An invalid selector selects nothing.
            let Some(need) = Need::of(requirement) else {
                return Self::FALSE;
            };
            parts.push(if of_namespace {
                Self::NamespaceLabel(need)
            } else {
                Self::Label(need)
            });
        }
        Self::all(parts)
    }

    /// What is hidden from native policies in it.
    pub(super) fn hidden(&self) -> Option<&str> {
        match self {
            Self::Hidden(what) => Some(what),
            Self::Not(inner) => inner.hidden(),
            Self::All(parts) | Self::Any(parts) => parts.iter().find_map(Self::hidden),
            _ => None,
        }
    }

    /// Whether any leaf of it has a property.
    pub(super) fn mentions(&self, has: &impl Fn(&Self) -> bool) -> bool {
        match self {
            Self::Not(inner) => inner.mentions(has),
            Self::All(parts) | Self::Any(parts) => parts.iter().any(|part| part.mentions(has)),
            leaf => has(leaf),
        }
    }
}

/// Drops what occurs before; the order stays.
fn unique(parts: &mut Vec<Formula>) {
    let mut seen: Vec<Formula> = Vec::new();
    parts.retain(|part| {
        let is_new = !seen.contains(part);
        if is_new {
            seen.push(part.clone());
        }
        is_new
    });
}

/// A selector of namespaces and what else must hold.
pub(super) type Case = (Vec<Need>, Formula);

/// How many cases a formula may have.
const CASES: usize = 24;

/// The formula as cases, of which one must hold: what only a selector of namespaces can say apart from what conditions can
/// say. With `names`, namespaces by name go to the selectors, too. `None` if there are too many.
pub(super) fn cases(formula: &Formula, names: bool) -> Option<Vec<Case>> {
    let mut cases = split(formula)?;
    if names {
        for (needs, rest) in &mut cases {
            let parts = match std::mem::replace(rest, Formula::TRUE) {
                Formula::All(parts) => parts,
                other => vec![other],
            };
            let mut kept = Vec::new();
            for part in parts {
                match by_name(&part) {
                    Some(need) => needs.push(need),
                    None => kept.push(part),
                }
            }
            *rest = Formula::all(kept);
        }
    }
    for (needs, _) in &mut cases {
        needs.sort();
        needs.dedup();
    }
    Some(cases)
}

/// A statement about the namespace's name as one about its labels.
fn by_name(part: &Formula) -> Option<Need> {
    let plain = |names: &[String]| names.iter().all(|name| !has_wildcard(name));
    match part {
        Formula::Namespace(names) if plain(names) => Some(Need::names(names, true)),
        Formula::Not(inner) => match &**inner {
            Formula::Namespace(names) if plain(names) => Some(Need::names(names, false)),
            _ => None,
        },
        _ => None,
    }
}

fn split(formula: &Formula) -> Option<Vec<Case>> {
    let of_namespace = |leaf: &Formula| matches!(leaf, Formula::NamespaceLabel(_));
    if !formula.mentions(&of_namespace) {
        return Some(vec![(Vec::new(), formula.clone())]);
    }
    match formula {
        Formula::NamespaceLabel(need) => Some(vec![(vec![need.clone()], Formula::TRUE)]),
        Formula::All(parts) => {
            let mut cases: Vec<Case> = vec![(Vec::new(), Formula::TRUE)];
            for part in parts {
                let more = split(part)?;
                let product = cases.iter().flat_map(|(needs, rest)| {
                    more.iter().map(move |(own, other)| {
                        let needs = needs.iter().chain(own).cloned().collect();
                        (needs, Formula::all([rest.clone(), other.clone()]))
                    })
                });
                cases = product.collect();
                if cases.len() > CASES {
                    return None;
                }
            }
            Some(cases)
        }
        Formula::Any(parts) => {
            let (selected, plain): (Vec<&Formula>, Vec<&Formula>) =
                parts.iter().partition(|part| part.mentions(&of_namespace));
            let mut cases = Vec::new();
            if !plain.is_empty() {
                cases.push((Vec::new(), Formula::any(plain.into_iter().cloned())));
            }
            for part in selected {
                cases.extend(split(part)?);
            }
            (cases.len() <= CASES).then_some(cases)
        }
        _ => None,
    }
}
