//! Does `matchConstraints` of a policy, or `matchResources` of a binding, select a request.
//!
//! Upstream counterpart: `k8s.io/apiserver/pkg/admission/plugin/policy/matching` and `plugin/webhook/predicates`.
//!
//! Known deviation: a namespace is always found.

use kyvtest_model::{
    kube::{Atom, Facts, InvalidSelector, LabelSelector, Operation, Pairs, Pattern, RequestClass, Resource, Text},
    policy::{MatchConstraints, MatchPolicy, NamedRule},
    verdict::Part,
};

/// Whether a request is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match<'u> {
    /// It is, as this resource: the request's own, or one under whose name the same objects are served.
    Yes(&'u Resource),
    /// It is not, because of `match…` or of an exclude rule.
    No(Part),
}

/// How constraints are read: as the API server does, or with the differences of others who read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Whether `matchPolicy` counts; otherwise rules mean exactly what they list.
    pub(crate) equivalents: bool,
    /// Whether an object that the request does not have counts as one without labels; otherwise no selector selects it.
    pub(crate) absent_objects: bool,
    /// Whether a listed name also fits the beginning of a name that is yet to be generated.
    pub(crate) generated_names: bool,
}

impl Reading {
    pub(crate) const API_SERVER: Self = Self {
        equivalents: true,
        absent_objects: false,
        generated_names: false,
    };

    /// Kyverno's own matcher, which its command line uses for native policies (`pkg/cel/matching` of Kyverno 1.19).
    pub(crate) const KYVERNO: Self = Self {
        equivalents: false,
        absent_objects: true,
        generated_names: true,
    };
}

/// Whether constraints select the requests of a cell, as the API server reads them. `equivalents` are the other names of the cell's resource
/// ([`Discovery::equivalents`](kyvtest_model::kube::Discovery::equivalents)), to which a match policy `Equivalent`, the default, looks.
///
/// # Errors
/// If everything else selects the request and a selector is invalid.
pub fn matches<'p, 'u>(
    constraints: &'p MatchConstraints,
    cell: &RequestClass<'u>,
    equivalents: &[&'u Resource],
    facts: &mut impl Facts<'p>,
) -> Result<Match<'u>, InvalidSelector<'p>> {
    matches_as(Reading::API_SERVER, constraints, cell, equivalents, facts)
}

/// [`matches()`] with the differences of a reader.
///
/// # Errors
/// If everything else selects the request and a selector is invalid.
pub(crate) fn matches_as<'p, 'u>(
    reading: Reading,
    constraints: &'p MatchConstraints,
    cell: &RequestClass<'u>,
    equivalents: &[&'u Resource],
    facts: &mut impl Facts<'p>,
) -> Result<Match<'u>, InvalidSelector<'p>> {
    const UNSELECTED: Match<'_> = Match::No(Part::Match);
    let policy = constraints.match_policy.as_ref().map(|policy| policy.value);
    let exact = policy == Some(MatchPolicy::Exact) || !reading.equivalents;
    let equivalents = if exact { &[] } else { equivalents };
    // Skip the selectors if no rule lists the resource: they cannot change the result.
    let mut names = std::iter::once(&cell.resource).chain(equivalents);
    if !names.any(|resource| constraints.lists(&RequestClass { resource, ..*cell })) {
        return Ok(UNSELECTED);
    }
    let namespace = namespace_matches(constraints, cell, facts);
    if namespace == Ok(false) {
        return Ok(UNSELECTED);
    }
    let object = object_matches(reading, constraints, cell, facts);
    if object == Ok(false) {
        return Ok(UNSELECTED);
    }
    let mut rules = Rules {
        reading,
        cell,
        equivalents,
        facts,
    };
    if rules.first_of(&constraints.exclude_resource_rules).is_some() {
        return Ok(Match::No(Part::Exclude));
    }
    let selected = if constraints.resource_rules.is_empty() {
        Some(cell.resource)
    } else {
        rules.first_of(&constraints.resource_rules)
    };
    match selected {
        None => Ok(UNSELECTED),
        Some(resource) => namespace.and(object).map(|_| Match::Yes(resource)),
    }
}

/// The resource that the rules alone match a request class as, regardless of resource names: its own if any rule lists
/// it, else the first equivalent in the order of the rules.
pub fn listed_as<'u>(
    constraints: &MatchConstraints,
    cell: &RequestClass<'u>,
    equivalents: &[&'u Resource],
) -> Option<&'u Resource> {
    let rules = &constraints.resource_rules;
    if rules.iter().any(|rule| rule.rule.matches(cell)) {
        return Some(cell.resource);
    }
    rules.iter().find_map(|rule| {
        let mut others = equivalents.iter().copied();
        others.find(|resource| rule.rule.matches(&RequestClass { resource, ..*cell }))
    })
}

struct Rules<'c, 'u, F> {
    reading: Reading,
    cell: &'c RequestClass<'u>,
    equivalents: &'c [&'u Resource],
    facts: &'c mut F,
}

impl<'u, F> Rules<'_, 'u, F> {
    /// The resource under whose name a rule means the request: its own, if any rule means it.
    fn first_of<'p>(&mut self, rules: &'p [NamedRule]) -> Option<&'u Resource>
    where
        F: Facts<'p>,
    {
        let own = self.cell.resource;
        if rules.iter().any(|rule| self.means(rule, own)) {
            return Some(own);
        }
        let equivalents = self.equivalents;
        rules
            .iter()
            .find_map(|rule| equivalents.iter().copied().find(|resource| self.means(rule, resource)))
    }

    fn means<'p>(&mut self, rule: &'p NamedRule, resource: &'u Resource) -> bool
    where
        F: Facts<'p>,
    {
        let cell = RequestClass { resource, ..*self.cell };
        rule.rule.matches(&cell) && self.has_name(rule)
    }

    fn has_name<'p>(&mut self, rule: &'p NamedRule) -> bool
    where
        F: Facts<'p>,
    {
        let names = &rule.resource_names;
        if names.is_empty() {
            return true;
        }
        let nameless = Atom::Text(Text::RequestName, Pattern::Exact(""));
        if self.reading.generated_names && (self.cell.collection || self.facts.ask(nameless)) {
            let mut names = names.iter();
            return names.any(|name| self.facts.ask(Atom::Text(Text::GenerateName, Pattern::Prefix(name))));
        }
        // The items of a collection delete have no name in their requests, so a proof need not decide it.
        if self.cell.collection {
            return names.iter().any(String::is_empty);
        }
        let mut names = names.iter();
        names.any(|name| self.facts.ask(Atom::Text(Text::RequestName, Pattern::Exact(name))))
    }
}

/// Where a selector is empty it selects everything, also what has no labels.
fn used(selector: Option<&LabelSelector>) -> Result<Option<&LabelSelector>, InvalidSelector<'_>> {
    let selector = selector.filter(|selector| !selector.is_empty());
    match selector.and_then(LabelSelector::error) {
        Some(error) => Err(InvalidSelector { error }),
        None => Ok(selector),
    }
}

fn namespace_matches<'p>(
    constraints: &'p MatchConstraints,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Result<bool, InvalidSelector<'p>> {
    let of_namespaces = cell.resource.plural == "namespaces";
    if !cell.namespaced && !of_namespaces {
        return Ok(true);
    }
    // A Namespace that is being written has the labels itself.
    let writes = matches!(cell.operation, Operation::Create | Operation::Update);
    let labels = if of_namespaces && writes && cell.resource.subresource.is_empty() {
        Pairs::NewLabels
    } else {
        Pairs::NamespaceLabels
    };
    let selector = used(constraints.namespace_selector.as_deref())?;
    Ok(selector.is_none_or(|selector| selector.matches(Some(labels), facts)))
}

fn object_matches<'p>(
    reading: Reading,
    constraints: &'p MatchConstraints,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> Result<bool, InvalidSelector<'p>> {
    // The options of a connection have no metadata, so no selector selects them.
    let sides: &[Pairs] = match cell.operation {
        _ if reading.absent_objects => &[Pairs::NewLabels, Pairs::OldLabels],
        Operation::Create => &[Pairs::NewLabels],
        Operation::Update => &[Pairs::NewLabels, Pairs::OldLabels],
        Operation::Delete => &[Pairs::OldLabels],
        Operation::Connect => &[],
    };
    let selector = used(constraints.object_selector.as_deref())?;
    Ok(selector.is_none_or(|selector| sides.iter().any(|&labels| selector.matches(Some(labels), facts))))
}
