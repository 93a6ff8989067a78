//! One filter of a `match` or `exclude` block.

use super::{
    kind_matches,
    reason::{Quiet, Reason, Sink},
    selector::{self, Mismatch, pair_fits},
};
use kyvtest_model::{
    kube::{Atom, Facts, LabelSelector, Pairs, Pattern, RequestClass, Side, Text},
    policy::{self, ResourceDescription, ResourceFilter, Subject, SubjectPattern, UserFilter},
};

/// Which block a filter belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// `match`: the user part of a filter is dropped if the user is unknown.
    Match,
    /// `exclude`: it is not.
    Exclude,
}

/// Whether a filter of a rule matches. An empty one does not.
pub(super) fn filter_applies<'p>(
    filter: &'p ResourceFilter,
    block: Block,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
    sink: &mut impl Sink<'p>,
) -> bool {
    let user = Some(&filter.user).filter(|user| !(user.is_absent() || block == Block::Match && cell.anonymous));
    let resources = &filter.resources;
    if resources.is_empty() && user.is_none() {
        sink.note(Reason::EmptyFilter);
        return false;
    }
    let operations = &resources.operations;
    if !operations.is_empty() && !operations.iter().any(|text| text.value == cell.operation.as_str()) {
        sink.note(Reason::Operation);
        return false;
    }
    let mut check = Check {
        cell,
        facts,
        sink,
        held: true,
    };
    check.resources(resources, true) && user.is_none_or(|user| check.user(user)) && check.held
}

/// Whether a filter is empty, as PolicyExceptions read it: empty lists are like absent ones.
pub(super) fn empty_for_exception(filter: &ResourceFilter) -> bool {
    filter.resources.is_empty() && filter.user.is_empty()
}

/// Whether a filter of a PolicyException matches.
pub(super) fn filter_exempts<'p>(
    filter: &'p ResourceFilter,
    cell: &RequestClass<'_>,
    facts: &mut impl Facts<'p>,
) -> bool {
    let mut check = Check {
        cell,
        facts,
        sink: &mut Quiet,
        held: true,
    };
    check.resources(&filter.resources, false) && check.user(&filter.user) && check.held
}

/// A filter being checked.
struct Check<'c, 'u, F, S> {
    cell: &'c RequestClass<'u>,
    facts: &'c mut F,
    sink: &'c mut S,
    /// Whether everything held up to here; the checks go on after a failure if the sink wants more.
    held: bool,
}

impl<'p, F: Facts<'p>, S: Sink<'p>> Check<'_, '_, F, S> {
    /// Takes the result of one check; returns whether to go on.
    fn expect(&mut self, holds: bool, reason: impl FnOnce() -> Reason<'p>) -> bool {
        if holds {
            return true;
        }
        self.held = false;
        self.sink.note(reason())
    }

    fn text(&mut self, text: Text, patterns: &'p [policy::Text]) -> bool {
        patterns
            .iter()
            .any(|pattern| self.facts.ask(Atom::Text(text, Pattern::glob(pattern))))
    }

    /// Checks the resource part of the filter without operations; returns whether to go on.
    fn resources(&mut self, wanted: &'p ResourceDescription, in_rule: bool) -> bool {
        let cell = self.cell;
        let kinds = &wanted.kinds;
        let kind = kinds.is_empty() || kinds.iter().any(|selector| kind_matches(selector, cell.resource, true));
        if !self.expect(kind, || Reason::Kind(kinds)) {
            return false;
        }
        if let Some(name) = &wanted.name {
            let holds = self.text(Text::Name, std::slice::from_ref(name));
            if !self.expect(holds, || Reason::Name) {
                return false;
            }
        }
        if !wanted.names.is_empty() {
            let holds = self.text(Text::Name, &wanted.names);
            if !self.expect(holds, || Reason::Names) {
                return false;
            }
        }
        let is_namespace = cell.resource.object_kind.kind == "Namespace";
        if !wanted.namespaces.is_empty() {
            let text = if is_namespace { Text::BareName } else { Text::Namespace };
            let holds = self.text(text, &wanted.namespaces);
            if !self.expect(holds, || Reason::Namespace) {
                return false;
            }
        }
        let (labels, annotations) = match cell.subject {
            Some(Side::Old) => (Pairs::OldLabels, Pairs::OldAnnotations),
            Some(Side::New) | None => (Pairs::NewLabels, Pairs::NewAnnotations),
        };
        let facts = &mut *self.facts;
        let mut pairs = wanted.annotations.iter().flatten();
        let holds = pairs.all(|(key, value)| pair_fits(annotations, key, value, facts));
        if !self.expect(holds, || Reason::Annotations) {
            return false;
        }
        if let Some(selector) = &wanted.selector
            && !self.selector(selector, labels, Reason::Selector, Reason::InvalidSelector)
        {
            return false;
        }
        match &wanted.namespace_selector {
            None => true,
            Some(_) if is_namespace => !in_rule || self.expect(false, || Reason::NamespaceObject),
            // An object without a kind: upstream matches only a rule that lists all kinds.
            Some(_)
                if cell.resource.object_kind.kind.is_empty()
                    && !(in_rule && kinds.iter().any(|selector| selector.text == "*")) =>
            {
                true
            }
            Some(selector) => self.selector(
                selector,
                Pairs::NamespaceLabels,
                Reason::NamespaceSelector,
                Reason::InvalidNamespaceSelector,
            ),
        }
    }

    fn selector(
        &mut self,
        selector: &'p LabelSelector,
        pairs: Pairs,
        labels: Reason<'p>,
        invalid: impl FnOnce(std::borrow::Cow<'p, str>) -> Reason<'p>,
    ) -> bool {
        match selector::check(selector, pairs, self.facts) {
            Ok(()) => true,
            Err(Mismatch::Labels) => self.expect(false, || labels),
            Err(Mismatch::Invalid(error)) => self.expect(false, || invalid(error)),
        }
    }

    /// Checks the user part of the filter; returns whether to go on.
    fn user(&mut self, wanted: &'p UserFilter) -> bool {
        let some = |list: &'p Option<Vec<policy::Text>>| list.as_deref().filter(|list| !list.is_empty());
        if let Some(roles) = some(&wanted.roles) {
            let holds = roles.iter().any(|role| self.facts.ask(Atom::Role(role)));
            if !self.expect(holds, || Reason::Roles) {
                return false;
            }
        }
        if let Some(roles) = some(&wanted.cluster_roles) {
            let holds = roles.iter().any(|role| self.facts.ask(Atom::ClusterRole(role)));
            if !self.expect(holds, || Reason::ClusterRoles) {
                return false;
            }
        }
        match wanted.subjects.as_deref() {
            None | Some([]) => true,
            Some(subjects) => {
                let holds = subjects.iter().any(|subject| self.is(subject));
                self.expect(holds, || Reason::Subjects)
            }
        }
    }

    fn is(&mut self, subject: &'p Subject) -> bool {
        match &subject.pattern {
            Some(SubjectPattern::User(name)) => self.facts.ask(Atom::Text(Text::Username, Pattern::glob(name))),
            Some(SubjectPattern::Group(name)) => self.facts.ask(Atom::AnyGroup(Pattern::glob(name))),
            None => false,
        }
    }
}
