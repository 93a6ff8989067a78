//! From formulas to native policies: one for every selector of namespaces and failure action, with the rules of its places
//! and one match condition.

use serde_json::{Value as Json, json};

use super::{
    cel::{Names, and, one_of, or},
    classic::Source,
    formula::{Case, Formula, Need, cases},
    place::{Class, Place},
};
use kyvtest_model::kube::{Discovery, Operation, Resource};

/// A binding in the making: a selector of namespaces, and whether a violation refuses the request.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) needs: Vec<Need>,
    pub(super) denies: bool,
}

/// A native policy in the making.
#[derive(Debug, Clone)]
pub(super) struct Group {
    /// What a violation does.
    denies: Formula,
    /// The selector of namespaces.
    needs: Vec<Need>,
    /// When it applies, place by place.
    items: Vec<Item>,
}

#[derive(Debug, Clone)]
struct Item {
    place: usize,
    operation: Operation,
    rest: Formula,
}

/// The parts of a native policy that say when it applies.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) constraints: Json,
    pub(super) condition: Option<String>,
    pub(super) bindings: Vec<Bound>,
}

/// How many native policies may replace one rule.
const GROUPS: usize = 12;

/// Why a rule has no groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lack {
    /// It applies to no request.
    Nothing,
    /// It reads what native policies cannot see.
    Hidden(String),
    /// It would take too many of them.
    TooMany,
}

/// The policies of a rule, about some operations only. With `bindings`, what a violation does may differ by namespace within
/// a policy.
pub(super) fn groups(
    source: &Source<'_>,
    places: &[Place],
    operations: &[Operation],
    bindings: bool,
) -> Result<Vec<Group>, Lack> {
    let mut entries = Vec::new();
    for (at, place) in places.iter().enumerate() {
        for operation in place.operations() {
            if !operations.contains(&operation) {
                continue;
            }
            let applies = source.applies(place, operation);
            if applies == Formula::FALSE {
                continue;
            }
            let denies = source.denies(place, operation);
            if let Some(what) = applies.hidden().or(denies.hidden()) {
                return Err(Lack::Hidden(what.to_owned()));
            }
            if matches!(denies, Formula::Known(_)) || bindings && bound(&denies).is_some() {
                entries.push((at, operation, applies, denies));
            } else {
                // What no selector can tell apart becomes two policies.
                let refused = Formula::all([applies.clone(), denies.clone()]);
                let others = Formula::all([applies, denies.negate()]);
                let split = [(refused, Formula::TRUE), (others, Formula::FALSE)];
                let split = split.into_iter().filter(|(applies, _)| *applies != Formula::FALSE);
                entries.extend(split.map(|(applies, denies)| (at, operation, applies, denies)));
            }
        }
    }
    if entries.is_empty() {
        return Err(Lack::Nothing);
    }
    let mut best: Option<Vec<Group>> = None;
    for names in [true, false] {
        let groups = grouped(&entries, places, names).ok_or(Lack::TooMany)?;
        if best.as_ref().is_none_or(|best| groups.len() < best.len()) {
            best = Some(groups);
        }
    }
    best.filter(|groups| groups.len() <= GROUPS).ok_or(Lack::TooMany)
}

fn grouped(entries: &[(usize, Operation, Formula, Formula)], places: &[Place], names: bool) -> Option<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut free: Vec<(Formula, Item)> = Vec::new();
    for (place, operation, applies, denies) in entries {
        let is_free = places.get(*place).is_some_and(|place| place.class() == Class::Cluster);
        for (needs, rest) in cases(applies, names)? {
            let item = Item {
                place: *place,
                operation: *operation,
                rest,
            };
            if is_free && needs.is_empty() {
                free.push((denies.clone(), item));
                continue;
            }
            match groups
                .iter_mut()
                .find(|group| group.needs == needs && group.denies == *denies)
            {
                Some(group) => group.add(item),
                None => groups.push(Group {
                    denies: denies.clone(),
                    needs,
                    items: vec![item],
                }),
            }
        }
    }
    // The labels of a namespace do not count for cluster-scoped objects.
    for (denies, item) in free {
        match groups.iter_mut().find(|group| group.denies == denies) {
            Some(group) => group.add(item),
            None => groups.push(Group {
                denies,
                needs: Vec::new(),
                items: vec![item],
            }),
        }
    }
    Some(groups)
}

/// Bindings whose selectors tell apart what is refused; `None` if selectors cannot.
fn bound(denies: &Formula) -> Option<Vec<Bound>> {
    if let Formula::Known(denies) = denies {
        return Some(vec![Bound {
            needs: Vec::new(),
            denies: *denies,
        }]);
    }
    let only_needs = |formula: &Formula| -> Option<Vec<Case>> {
        let cases = cases(formula, true)?;
        cases.iter().all(|(_, rest)| *rest == Formula::TRUE).then_some(cases)
    };
    let refused = only_needs(denies)?;
    let others = only_needs(&denies.clone().negate())?;
    let make = |denies: bool| move |(needs, _): Case| Bound { needs, denies };
    let refused = refused.into_iter().map(make(true));
    Some(refused.chain(others.into_iter().map(make(false))).collect())
}

/// A selector of labels.
pub(super) fn selector(needs: &[Need]) -> Json {
    let expressions: Vec<Json> = needs
        .iter()
        .map(|need| {
            let mut expression = json!({"key": need.key, "operator": need.operator()});
            if !need.values.is_empty() {
                expression["values"] = json!(need.values);
            }
            expression
        })
        .collect();
    json!({"matchExpressions": expressions})
}

/// A rule in the making.
#[derive(PartialEq, Eq)]
struct Rule {
    group: String,
    version: String,
    operations: Vec<Operation>,
    scope: Option<&'static str>,
    resources: Vec<String>,
}

fn push(rules: &mut Vec<Rule>, rule: Rule) {
    let same = |other: &&mut Rule| {
        other.group == rule.group
            && other.version == rule.version
            && other.operations == rule.operations
            && other.scope == rule.scope
    };
    match rules.iter_mut().find(same) {
        Some(found) => found.resources.extend(rule.resources),
        None => rules.push(rule),
    }
}

fn written(rules: &[Rule]) -> Json {
    let rules = rules.iter().map(|rule| {
        let operations: Vec<&str> = rule.operations.iter().map(|operation| operation.as_str()).collect();
        let mut json = json!({
            "apiGroups": [rule.group],
            "apiVersions": [rule.version],
            "operations": operations,
            "resources": rule.resources,
        });
        if let Some(scope) = rule.scope {
            json["scope"] = json!(scope);
        }
        json
    });
    rules.collect()
}

impl Group {
    fn add(&mut self, item: Item) {
        let same = |other: &&mut Item| other.place == item.place && other.operation == item.operation;
        match self.items.iter_mut().find(same) {
            Some(found) => {
                let rest = std::mem::replace(&mut found.rest, Formula::FALSE);
                found.rest = Formula::any([rest, item.rest]);
            }
            None => self.items.push(item),
        }
    }

    fn operations(&self, place: usize) -> Vec<Operation> {
        let own = self.items.iter().filter(|item| item.place == place);
        own.map(|item| item.operation).collect()
    }

    /// Whether it tells places apart in a condition, and names or labels in it.
    pub(super) fn mentions(&self, has: &impl Fn(&Formula) -> bool) -> bool {
        self.items.iter().any(|item| item.rest.mentions(has))
    }

    /// The numbers of its places.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.items.iter().map(|item| item.place)
    }

    /// The selector of namespaces.
    pub(super) fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// The parts of the policy; `either` is the new object, or the old one where there is no new one.
    pub(super) fn scope(&self, places: &[Place], discovery: &Discovery, either: &'static str) -> Scope {
        let mut listed: Vec<Rule> = Vec::new();
        let mut excluded: Vec<Rule> = Vec::new();
        let mut resources: Vec<&Resource> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let operations = self.operations(at);
            let resource = &place.resource;
            if let Some(pattern) = &place.others {
                if operations.is_empty() {
                    continue;
                }
                let scope = match (self.lists_other_scope(places, at, pattern), resource.namespaced) {
                    (true, _) => None,
                    (false, true) => Some("Namespaced"),
                    (false, false) => Some("Cluster"),
                };
                // A rule for both scopes is written once.
                if scope.is_some() || resource.namespaced {
                    let rule = Rule {
                        group: "*".to_owned(),
                        version: "*".to_owned(),
                        operations,
                        scope,
                        resources: vec![pattern.clone()],
                    };
                    push(&mut listed, rule);
                }
                continue;
            }
            let covering = places
                .iter()
                .enumerate()
                .filter(|(_, other)| other.covers(resource))
                .flat_map(|(other, _)| self.operations(other));
            let covered: Vec<Operation> = covering.collect();
            let rule = |operations: Vec<Operation>| Rule {
                group: resource.group.clone(),
                version: resource.version.clone(),
                operations,
                scope: None,
                resources: vec![resource.name()],
            };
            let own: Vec<Operation> = operations
                .iter()
                .copied()
                .filter(|own| !covered.contains(own))
                .collect();
            if !own.is_empty() {
                resources.push(resource);
                push(&mut listed, rule(own));
            }
            let not: Vec<Operation> = place
                .operations()
                .into_iter()
                .filter(|own| covered.contains(own) && !operations.contains(own))
                .collect();
            if !not.is_empty() {
                push(&mut excluded, rule(not));
            }
        }
        let mut constraints = json!({});
        if !self.needs.is_empty() {
            constraints["namespaceSelector"] = selector(&self.needs);
        }
        constraints["resourceRules"] = written(&listed);
        if !excluded.is_empty() {
            constraints["excludeResourceRules"] = written(&excluded);
        }
        if is_complete(&resources, discovery) {
            constraints["matchPolicy"] = json!("Exact");
        }
        Scope {
            constraints,
            condition: self.condition(places, either),
            bindings: bound(&self.denies).unwrap_or_default(),
        }
    }

    /// Whether all others of the other scope are listed with the same operations.
    fn lists_other_scope(&self, places: &[Place], at: usize, pattern: &str) -> bool {
        let mut others = places.iter().enumerate();
        others.any(|(other, place)| {
            other != at
                && place.others.as_deref() == Some(pattern)
                && self.operations(other) == self.operations(at)
                && !self.operations(at).is_empty()
        })
    }

    fn condition(&self, places: &[Place], either: &'static str) -> Option<String> {
        let mut formulas: Vec<&Formula> = Vec::new();
        for item in &self.items {
            if !formulas.contains(&&item.rest) {
                formulas.push(&item.rest);
            }
        }
        let class = |item: &Item| places.get(item.place).map(Place::class);
        let deletes = |item: &Item| item.operation == Operation::Delete;
        let names = Names {
            subject: if !self.items.iter().any(deletes) {
                "object"
            } else if self.items.iter().all(deletes) {
                "oldObject"
            } else {
                either
            },
            in_namespace: self.items.iter().all(|item| class(item) != Some(Class::Cluster)),
        };
        if let [one] = formulas.as_slice() {
            return (**one != Formula::TRUE).then(|| names.expression(one));
        }
        let guarded = formulas.iter().filter(|formula| ***formula != Formula::TRUE);
        let guarded = guarded.map(|formula| (self.guard(places, formula), names.expression(formula)));
        Some(if formulas.contains(&&Formula::TRUE) {
            // Whatever nothing is said about is meant.
            and(guarded
                .map(|(guard, expression)| or(vec![format!("!({guard})"), expression]))
                .collect())
        } else {
            or(guarded
                .map(|(guard, expression)| and(vec![guard, expression]))
                .collect())
        })
    }

    /// Which requests of the policy a formula is about.
    fn guard(&self, places: &[Place], formula: &Formula) -> String {
        let own: Vec<&Item> = self.items.iter().filter(|item| item.rest == *formula).collect();
        // Places with the same operations share a guard.
        let mut parts: Vec<(Vec<usize>, Vec<Operation>)> = Vec::new();
        for item in &own {
            let operations: Vec<Operation> = own
                .iter()
                .filter(|other| other.place == item.place)
                .map(|other| other.operation)
                .collect();
            match parts.iter_mut().find(|(_, other)| *other == operations) {
                Some((of, _)) if of.contains(&item.place) => {}
                Some((of, _)) => of.push(item.place),
                None => parts.push((vec![item.place], operations)),
            }
        }
        let texts = parts.into_iter().map(|(of, operations)| {
            let here = |item: &Item| of.contains(&item.place);
            let now = |item: &Item| operations.contains(&item.operation);
            let mut texts = Vec::new();
            if self.items.iter().all(|item| here(item) && now(item)) {
                return "true".to_owned();
            }
            // One of the two is enough where it leaves nothing else.
            let by_place = self.items.iter().filter(|item| here(item)).all(now);
            let by_operation = !by_place && self.items.iter().filter(|item| now(item)).all(here);
            if !by_operation {
                let mut rest: Vec<usize> = self.items.iter().map(|item| item.place).collect();
                rest.retain(|place| !of.contains(place));
                rest.dedup();
                texts.push(self.is_among(places, &of, &rest));
            }
            if !by_place {
                let words: Vec<String> = operations
                    .iter()
                    .map(|operation| operation.as_str().to_owned())
                    .collect();
                texts.push(one_of("request.operation", &words));
            }
            and(texts)
        });
        or(texts.collect())
    }

    /// Whether a request is of one of these places and not of the rest.
    fn is_among(&self, places: &[Place], own: &[usize], rest: &[usize]) -> String {
        let of = |numbers: &[usize]| -> Vec<&Place> { numbers.iter().filter_map(|at| places.get(*at)).collect() };
        let (own, rest) = (of(own), of(rest));
        let named = |list: &[&Place]| -> Vec<Resource> {
            let named = list.iter().filter(|place| place.others.is_none());
            named.map(|place| place.resource.clone()).collect()
        };
        let wide: Vec<&&Place> = own.iter().filter(|place| place.others.is_some()).collect();
        let mut texts = Vec::new();
        let mine = named(&own);
        if !mine.is_empty() {
            texts.push(self.resources(places, &mine));
        }
        if !wide.is_empty() {
            let mut parts = Vec::new();
            let theirs = named(&rest);
            if !theirs.is_empty() {
                parts.push(format!("!({})", self.resources(places, &theirs)));
            }
            if rest.iter().any(|place| place.others.is_some()) {
                let namespaced = wide.iter().all(|place| place.resource.namespaced);
                let not = if namespaced { "" } else { "!" };
                parts.push(format!("{not}has(request.namespace)"));
            }
            texts.push(if parts.is_empty() {
                "true".to_owned()
            } else {
                and(parts)
            });
        }
        or(texts)
    }

    /// Whether a request is about one of these resources. Groups and subresources are named only if they matter.
    fn resources(&self, places: &[Place], resources: &[Resource]) -> String {
        let used = |place: usize| self.items.iter().any(|item| item.place == place);
        let others: Vec<&Place> = places
            .iter()
            .enumerate()
            .filter(|(at, _)| used(*at))
            .map(|(_, place)| place)
            .collect();
        let wide = others.iter().any(|place| place.others.is_some());
        let subs = others
            .iter()
            .any(|place| place.others.as_ref().is_some_and(|pattern| pattern != "*"));
        let mut by_kind: Vec<(Option<&str>, Option<&str>, Vec<String>)> = Vec::new();
        for resource in resources {
            let same = others.iter().filter(|place| place.resource.plural == resource.plural);
            let other_group = wide || same.clone().any(|place| place.resource.group != resource.group);
            let other_sub = subs
                || same
                    .clone()
                    .any(|place| place.resource.subresource != resource.subresource);
            let group = other_group.then_some(resource.group.as_str());
            let sub = other_sub.then_some(resource.subresource.as_str());
            let found = by_kind.iter_mut().find(|(g, s, _)| *g == group && *s == sub);
            match found {
                Some((.., plurals)) if plurals.contains(&resource.plural) => {}
                Some((.., plurals)) => plurals.push(resource.plural.clone()),
                None => by_kind.push((group, sub, vec![resource.plural.clone()])),
            }
        }
        let texts = by_kind.into_iter().map(|(group, sub, plurals)| {
            let mut parts = Vec::new();
            if let Some(group) = group {
                parts.push(one_of("request.resource.group", &[group.to_owned()]));
            }
            parts.push(one_of("request.resource.resource", &plurals));
            match sub {
                None => {}
                Some("") => parts.push("!has(request.subResource)".to_owned()),
                Some(sub) => {
                    parts.push("has(request.subResource)".to_owned());
                    parts.push(one_of("request.subResource", &[sub.to_owned()]));
                }
            }
            and(parts)
        });
        or(texts.collect())
    }
}

/// Whether resources are listed in several versions, and none in some of its versions only.
fn is_complete(resources: &[&Resource], discovery: &Discovery) -> bool {
    let listed = |other: &Resource| {
        let mut all = resources.iter();
        all.any(|resource| resource.gvr() == other.gvr() && resource.subresource == other.subresource)
    };
    let mut several = false;
    for resource in resources {
        for other in discovery.equivalents(resource) {
            if !listed(other) {
                return false;
            }
            several = true;
        }
    }
    several
}
