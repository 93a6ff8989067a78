//! Turns observations into report items.

use super::{
    Coverage, Item, ItemKind, Outcome, PolicyCoverage,
    recorder::{CoverageRecorder, constraints_apart},
    unreferenced,
};
use crate::{run::source_map::written, suite::Suite};
use kyvtest_cel::{
    observe::{Fork, Observer, OutcomeCounts, Place, Point, points},
    program::Program,
};
use kyvtest_go_compat::diagnostic::Span;
use kyvtest_kyverno::{
    classic_policy::CompiledClassicPolicy,
    observe::{PartKind, WatchedRule, filters},
    webhook::Webhook,
};
use kyvtest_model::policy::{
    AuditAnnotation, ClassicPolicy, Expression, MatchCondition, MatchConstraints, Origin, PolicyId, Rule, Subtree,
    ValidatingAdmissionPolicy, ValidatingPolicy, Validation, Variable,
};

/// The programs of a policy or of its autogen variant.
pub(super) type Programs<'p> = Vec<(Place, &'p Program)>;

/// The expressions of a rule or policy.
struct Texts<'p> {
    /// The field of the conditions.
    conditions_at: &'static str,
    /// The prefix of the other fields' paths.
    prefix: &'static str,
    /// The field of the validations.
    validations_at: &'static str,
    conditions: &'p [MatchCondition],
    variables: &'p [Variable],
    validations: &'p [Validation],
    annotations: &'p [AuditAnnotation],
}

impl<'p> Texts<'p> {
    fn of_rule(rule: &'p Rule) -> Self {
        let cel = rule.validate.as_ref().and_then(|validate| validate.cel.as_ref());
        Self {
            conditions_at: "celPreconditions",
            prefix: "validate.cel.",
            validations_at: "expressions",
            conditions: &rule.cel_preconditions,
            variables: cel.map_or(&[], |cel| &cel.variables),
            validations: cel.map_or(&[], |cel| &cel.expressions),
            annotations: cel.map_or(&[], |cel| &cel.audit_annotations),
        }
    }

    fn of_webhook(policy: &'p ClassicPolicy) -> Self {
        let webhook = policy.spec.webhook.as_ref();
        Self {
            conditions_at: "webhookConfiguration.matchConditions",
            prefix: "",
            validations_at: "",
            conditions: webhook.map_or(&[], |webhook| &webhook.match_conditions),
            variables: &[],
            validations: &[],
            annotations: &[],
        }
    }

    fn of_validating(policy: &'p ValidatingPolicy) -> Self {
        let spec = &policy.spec;
        Self {
            conditions_at: "matchConditions",
            prefix: "",
            validations_at: "validations",
            conditions: &spec.match_conditions,
            variables: &spec.variables,
            validations: &spec.validations,
            annotations: &spec.audit_annotations,
        }
    }

    fn of_native(policy: &'p ValidatingAdmissionPolicy) -> Self {
        Self {
            conditions_at: "matchConditions",
            prefix: "",
            validations_at: "validations",
            conditions: &policy.match_conditions,
            variables: &policy.variables,
            validations: &policy.rules.validations,
            annotations: &policy.rules.audit_annotations,
        }
    }

    /// The kind, path and source of an expression.
    fn find(&self, place: &Place) -> Option<(ItemKind, String, &'p Expression)> {
        let Self {
            conditions_at,
            prefix,
            validations_at,
            ..
        } = self;
        Some(match place {
            Place::MatchCondition(i) => (
                ItemKind::MatchCondition,
                format!("{conditions_at}[{i}].expression"),
                &self.conditions.get(*i)?.expression,
            ),
            Place::Variable(name) => {
                let mut variables = self.variables.iter().enumerate();
                let (i, variable) = variables.rfind(|(_, variable)| variable.name.value == *name)?;
                let path = format!("{prefix}variables[{i}].expression");
                (ItemKind::Variable, path, &variable.expression)
            }
            Place::Validation(i) => (
                ItemKind::Validation,
                format!("{prefix}{validations_at}[{i}].expression"),
                &self.validations.get(*i)?.expression,
            ),
            Place::Message(i) => (
                ItemKind::MessageExpression,
                format!("{prefix}{validations_at}[{i}].messageExpression"),
                self.validations.get(*i)?.message_expression.as_ref()?,
            ),
            Place::Annotation(i) => (
                ItemKind::AuditAnnotation,
                format!("{prefix}auditAnnotations[{i}].valueExpression"),
                &self.annotations.get(*i)?.value_expression,
            ),
        })
    }

    /// The items of all expressions. The first list of programs is that of the policy as written.
    fn items(&self, rule: Option<&str>, all: &[Programs<'_>], observer: &Observer) -> Vec<Item> {
        let Some((written, generated)) = all.split_first() else {
            return Vec::new();
        };
        let same = |place: &Place| {
            let place = place.clone();
            let lists = generated.iter();
            lists.filter_map(move |list| {
                list.iter()
                    .find(|(other, _)| *other == place)
                    .map(|(_, program)| *program)
            })
        };
        let whole = |place: &Place, program: &Program| {
            let mut ways = observer.whole(program);
            for other in same(place) {
                ways.join(observer.whole(other));
            }
            ways
        };
        let mut found: Vec<Item> = Vec::new();
        for (place, program) in written {
            let Some((kind, path, expression)) = self.find(place) else {
                continue;
            };
            let text = expression.text();
            let mut ways = whole(place, program);
            if let Place::Message(i) = place {
                // The API server computes the message of every validation; it is used if the validation is false.
                let validation = Place::Validation(*i);
                let own = written.iter().find(|(other, _)| *other == validation);
                let falsehoods = own.map_or(0, |(place, program)| whole(place, program).falsehoods);
                ways = OutcomeCounts {
                    others: falsehoods,
                    ..OutcomeCounts::default()
                };
            }
            found.push(Item {
                kind,
                rule: rule.map(str::to_owned),
                path: path.clone(),
                text: text.trim().to_owned(),
                span: expression.span(),
                outcomes: match kind {
                    ItemKind::MatchCondition | ItemKind::Validation => truth(ways, ("true", "false")),
                    _ => reached(ways),
                },
            });
            let mut own = points(text, program);
            // A condition that is just `has` is covered by its own outcomes.
            let whole = |point: &Point| text.get(point.start..point.end).map(str::trim) == Some(text.trim());
            own.retain(|point| point.fork != Fork::Has || !whole(point));
            let mut all = observer.parts(program, &own);
            for other in same(place) {
                for (ways, more) in all.iter_mut().zip(observer.parts(other, &own)) {
                    ways.join(more);
                }
            }
            for (point, ways) in own.iter().zip(all) {
                found.push(Item {
                    kind: ItemKind::Branch(point.fork),
                    rule: rule.map(str::to_owned),
                    path: path.clone(),
                    text: text.get(point.start..point.end).unwrap_or_default().trim().to_owned(),
                    span: expression.part(point.start, point.end),
                    outcomes: branch(point.fork, ways),
                });
            }
        }
        found.sort_by_key(|item| (item.span.start, item.span.end, matches!(item.kind, ItemKind::Branch(_))));
        found
    }
}

/// Outcomes of a boolean.
fn truth(ways: OutcomeCounts, (yes, no): (&'static str, &'static str)) -> Vec<Outcome> {
    vec![
        wanted(yes, ways.truths),
        wanted(no, ways.falsehoods),
        Outcome {
            name: "error",
            count: ways.errors,
            wanted: false,
        },
    ]
}

/// Outcomes of a part that only has a value.
fn reached(ways: OutcomeCounts) -> Vec<Outcome> {
    vec![
        wanted("reached", ways.total() - ways.errors),
        Outcome {
            name: "error",
            count: ways.errors,
            wanted: false,
        },
    ]
}

fn branch(fork: Fork, ways: OutcomeCounts) -> Vec<Outcome> {
    match fork {
        Fork::All | Fork::Exists | Fork::ExistsOne => {
            let words = match fork {
                Fork::All => ("all true", "one false"),
                Fork::Exists => ("one true", "all false"),
                _ => ("exactly one true", "none or several true"),
            };
            let mut outcomes = vec![wanted("empty", ways.empties)];
            outcomes.extend(truth(ways, words));
            outcomes
        }
        Fork::Has => truth(ways, ("present", "absent")),
        Fork::Optional => {
            // A value that is not optional is present.
            let there = ways.truths + ways.others + ways.empties;
            truth(OutcomeCounts { truths: there, ..ways }, ("present", "absent"))
        }
        Fork::And | Fork::Or | Fork::Condition | Fork::Filter => truth(ways, ("true", "false")),
    }
}

const fn wanted(name: &'static str, count: u64) -> Outcome {
    Outcome {
        name,
        count,
        wanted: true,
    }
}

/// A part of a subtree by its path: `validate.deny.conditions.any[0]`.
fn locate(subtree: &Subtree, path: &str) -> Option<Span> {
    let mut node = subtree.node();
    for step in path.split('.') {
        let (name, number) = match step.split_once('[') {
            Some((name, rest)) => (name, rest.strip_suffix(']')?.parse::<usize>().ok()),
            None => (step, None),
        };
        node = node.get(name)?;
        if let Some(number) = number {
            node = node.as_seq()?.get(number)?;
        }
    }
    let span = node.span();
    Some(Span::new(subtree.file(), span.start, span.end))
}

impl CoverageRecorder<'_> {
    fn rule(&self, policy: &PolicyId, rule: Option<&str>, span: Span, may_skip: bool) -> Option<Item> {
        let answered = self.of_rule(policy, rule.unwrap_or_default());
        if answered.undecided > 0 {
            return None;
        }
        let counted = |name, count| Outcome {
            name,
            count,
            wanted: false,
        };
        Some(Item {
            kind: ItemKind::Rule,
            rule: rule.map(str::to_owned),
            path: String::new(),
            text: String::new(),
            span,
            outcomes: vec![
                wanted("pass", answered.pass),
                wanted("fail", answered.fail),
                Outcome {
                    wanted: may_skip,
                    ..counted("skip", answered.skip)
                },
                counted("error", answered.error),
                counted("no match", answered.none),
            ],
        })
    }

    /// A mutating rule, or a mutating policy without rules: it never fails.
    fn mutation(&self, policy: &PolicyId, rule: Option<&str>, span: Span, may_skip: bool) -> Item {
        let answered = self.of_mutation(policy, rule.unwrap_or_default());
        let outcome = |name, count, wanted| Outcome { name, count, wanted };
        Item {
            kind: ItemKind::Rule,
            rule: rule.map(str::to_owned),
            path: String::new(),
            text: String::new(),
            span,
            outcomes: vec![
                wanted("pass", answered.pass),
                outcome("skip", answered.skip, may_skip),
                outcome("error", answered.error, false),
                outcome("no match", answered.none, false),
            ],
        }
    }

    fn filter(&self, policy: &PolicyId, rule: Option<&str>, path: String, span: Span) -> Item {
        let (yes, no) = self.of_filter(policy, rule.unwrap_or_default(), &path);
        Item {
            kind: ItemKind::Filter,
            rule: rule.map(str::to_owned),
            path,
            text: String::new(),
            span,
            outcomes: vec![wanted("matched", yes), wanted("passed over", no)],
        }
    }

    fn constraints(&self, policy: &PolicyId, constraints: Option<&MatchConstraints>) -> Vec<Item> {
        let apart = constraints.map(constraints_apart).unwrap_or_default();
        apart
            .into_iter()
            .map(|(path, alone)| self.filter(policy, None, path, alone.span))
            .collect()
    }

    /// The observations of a classic policy.
    pub(super) fn classic(&self, compiled: &CompiledClassicPolicy, webhook: Option<&Webhook>) -> PolicyCoverage {
        let policy = compiled.policy();
        let id = policy.id();
        let watched = compiled.watched(&self.observer);
        let mut items = Texts::of_webhook(policy).items(
            None,
            &[webhook.map(Webhook::programs).unwrap_or_default()],
            &self.observer,
        );
        for rule in &policy.spec.rules {
            let own = rule.name.value.as_str();
            let may_skip = rule.preconditions.as_ref().is_some_and(|part| !part.node().is_null())
                || !rule.cel_preconditions.is_empty();
            let item = if rule.mutate.is_some() {
                Some(self.mutation(&id, Some(own), rule.name.span, may_skip))
            } else {
                self.rule(&id, Some(own), rule.name.span, may_skip)
            };
            let Some(item) = item else { continue };
            items.push(item);
            let blocks = [("match", Some(&rule.matches)), ("exclude", rule.exclude.as_ref())];
            for (word, block) in blocks {
                for (path, filter) in block.into_iter().flat_map(|block| filters(block, word)) {
                    items.push(self.filter(&id, Some(own), path, filter.span));
                }
            }
            let variants: Vec<&WatchedRule<'_>> = watched.iter().filter(|one| written(one.rule) == own).collect();
            let programs: Vec<Programs<'_>> = variants.iter().map(|one| one.programs.clone()).collect();
            items.extend(parts(rule, &variants));
            items.extend(Texts::of_rule(rule).items(Some(own), &programs, &self.observer));
        }
        coverage(&id, policy.origin, items)
    }

    /// The observations of a CEL policy. The first list of programs is that of the policy as written.
    pub(super) fn validating(&self, policy: &ValidatingPolicy, programs: &[Programs<'_>]) -> PolicyCoverage {
        let id = policy.id();
        let may_skip = !policy.spec.match_conditions.is_empty();
        let mut items: Vec<Item> = self
            .rule(&id, None, policy.metadata.name.span, may_skip)
            .into_iter()
            .collect();
        items.extend(self.constraints(&id, policy.spec.match_constraints.as_ref()));
        items.extend(Texts::of_validating(policy).items(None, programs, &self.observer));
        coverage(&id, policy.origin, items)
    }

    /// The observations of a mutating policy without rules. Its expressions are not observed.
    pub(super) fn mutating(
        &self,
        id: &PolicyId,
        (name, origin): (Span, Origin),
        constraints: Option<&MatchConstraints>,
        may_skip: bool,
    ) -> PolicyCoverage {
        let mut items = vec![self.mutation(id, None, name, may_skip)];
        items.extend(self.constraints(id, constraints));
        coverage(id, origin, items)
    }

    /// The observations of a native policy.
    pub(super) fn native(
        &self,
        policy: &ValidatingAdmissionPolicy,
        id: &PolicyId,
        programs: Programs<'_>,
    ) -> PolicyCoverage {
        let mut items: Vec<Item> = self
            .rule(id, None, policy.metadata.name.span, false)
            .into_iter()
            .collect();
        items.extend(self.constraints(id, policy.match_constraints.as_ref()));
        items.extend(Texts::of_native(policy).items(None, &[programs], &self.observer));
        coverage(id, policy.origin, items)
    }
}

/// Combines the policies' coverage.
pub(super) fn all(suite: &Suite, mut policies: Vec<PolicyCoverage>) -> Coverage {
    policies.sort_by_key(|policy| (policy.file, policy.doc));
    Coverage {
        policies,
        unreferenced: unreferenced(suite),
    }
}

/// The parts of a rule that are not CEL; rules from autogen count for it.
fn parts(rule: &Rule, variants: &[&WatchedRule<'_>]) -> Vec<Item> {
    let Some((first, others)) = variants.split_first() else {
        return Vec::new();
    };
    let own = first.parts.iter().map(|part| {
        let mut ways = part.ways;
        let same = others.iter().flat_map(|other| &other.parts);
        for other in same.filter(|other| other.path == part.path) {
            ways.join(other.ways);
        }
        Item {
            kind: match part.kind {
                PartKind::Condition => ItemKind::Condition,
                PartKind::Pattern => ItemKind::Pattern,
                PartKind::Loop => ItemKind::Loop,
            },
            rule: Some(rule.name.value.clone()),
            path: part.path.clone(),
            text: String::new(),
            span: locate(&rule.source, &part.path).unwrap_or(rule.name.span),
            outcomes: match part.kind {
                PartKind::Condition => truth(ways, ("true", "false")),
                PartKind::Pattern => truth(ways, ("matched", "failed")),
                PartKind::Loop => {
                    let mut outcomes = vec![wanted("no elements", ways.empties)];
                    outcomes.extend(truth(ways, ("passed", "failed")));
                    outcomes
                }
            },
        }
    });
    own.collect()
}

fn coverage(policy: &PolicyId, origin: Origin, items: Vec<Item>) -> PolicyCoverage {
    PolicyCoverage {
        name: policy.name.clone(),
        kind: policy.kind,
        file: origin.file,
        doc: origin.document,
        items,
    }
}
