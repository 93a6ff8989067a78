//! A policy, rule by rule: translated, proven, and put together.
//!
//! Each rule is compared on its own with a policy that has this rule alone. Of several translations the first that is proven
//! is taken; one that decides a request differently is never written. Afterwards all policies together are compared with the
//! policy (`whole`), and those that differ only in their validations become one (`unite`).

use std::{collections::BTreeSet, sync::Arc};

use kyvtest_kyverno::autogen;
use kyvtest_model::{
    kube::Discovery,
    policy::{ClassicPolicy, PolicyException, Rule},
};
use kyvtest_prove::{
    Label,
    body::{self, Comparison, Counterexample, Side, compare_sides},
};
use serde_json::{Value as Json, json};

use kyvtest_go_compat::diagnostic::Span;

use crate::{
    Refusal, RefusalCode, apply_one, assemble,
    draft::{Draft, Preconditions, Source, Style, drafts},
    generate,
    guess::{Guess, with_kinds},
    kinds::Translated,
    mutate, settings, unite, verify_images, whole,
};

/// How policies are migrated.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether updates of objects that violated a rule before stay allowed.
    pub existing: Existing,
    /// Whether every rule has policies of its own. Otherwise rules share a policy where that changes nothing.
    pub split: bool,
    /// Exceptions that may name rules: what they lift in part is not put together.
    pub exceptions: Vec<Arc<PolicyException>>,
    /// How translations are compared with their rules.
    pub proof: body::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            existing: Existing::Keep,
            split: false,
            exceptions: Vec::new(),
            // The gates try more requests than a user waits for, and search longer.
            proof: body::Options {
                tries: 40,
                checks: 4,
                cases: 4_000,
                ..body::Options::default()
            },
        }
    }
}

/// What becomes of `allowExistingViolations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// The new policy lets the same updates through.
    #[default]
    Keep,
    /// The new policy refuses them.
    Drop,
}

/// What is known about the translation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleLabel {
    /// Every request has the same effect.
    Proven,
    /// Every request whose lists are not longer than the number has the same effect.
    Bounded(u32),
    /// Requests were tried, and nothing else is claimed.
    Tested(u64),
    /// There is no translation.
    NotMigrated(RefusalCode),
}

impl RuleLabel {
    /// The word in reports.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Proven => "PROVEN",
            Self::Bounded(_) => "BOUNDED",
            Self::Tested(_) => "TESTED",
            Self::NotMigrated(_) => "NOT-MIGRATED",
        }
    }

    /// The code of a refusal.
    pub const fn code(&self) -> Option<&'static str> {
        match self {
            Self::NotMigrated(code) => Some(code.as_str()),
            _ => None,
        }
    }
}

/// A rule and what became of it.
#[derive(Debug, Clone)]
pub struct MigratedRule {
    pub name: String,
    /// What is known about the translation.
    pub label: RuleLabel,
    /// Why the label is not better; empty if it is the best.
    pub reason: String,
    /// Where the rule, or the construct without translation, is.
    pub place: Span,
    /// The policies that replace the rule. Other rules may have the same ones.
    pub objects: Vec<Json>,
    /// For each of these policies, the variants of the rule that it covers: empty for the rule as it is written,
    /// `controllers` and `cronjobs` for those that Kyverno generates.
    pub(crate) variants: Vec<Vec<&'static str>>,
    /// A translation that is not written because it decides a request differently.
    pub rejected: Vec<Json>,
    /// The request that the translation decides differently: the reason why it is not written, or what
    /// [`Existing::Drop`] gives up.
    pub counterexample: Option<Box<Counterexample>>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// Whether the rule is a `validate.cel` rule: Kyverno reports an expression that cannot be evaluated as a violation there, and
    /// as an error in a ValidatingPolicy.
    pub(crate) in_cel: bool,
}

/// A policy and what became of it.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The rules, in order.
    pub rules: Vec<MigratedRule>,
}

/// The new policies of some rules, in order, each once.
pub(crate) fn objects_of<'r>(rules: impl IntoIterator<Item = &'r MigratedRule>) -> Vec<&'r Json> {
    let mut objects: Vec<&Json> = Vec::new();
    for object in rules.into_iter().flat_map(|rule| &rule.objects) {
        if !objects.contains(&object) {
            objects.push(object);
        }
    }
    objects
}

impl Migration {
    /// The new policies, in the order of the rules, each once.
    pub fn objects(&self) -> impl Iterator<Item = &Json> {
        objects_of(&self.rules).into_iter()
    }

    /// The rules that a new policy replaces, in order.
    pub fn rules_of<'m>(&'m self, object: &'m Json) -> impl Iterator<Item = &'m MigratedRule> {
        self.rules.iter().filter(move |rule| rule.objects.contains(object))
    }
}

pub fn migrate(policy: &ClassicPolicy, discovery: &Discovery, options: &Options) -> Migration {
    let several = policy.spec.rules.len() > 1;
    let (discovery, guesses) = with_kinds(policy, discovery);
    let rules = policy.spec.rules.iter().map(|rule| {
        let name = &policy.metadata.name.value;
        let base = if several {
            format!("{name}-{}", identifier(&rule.name.value))
        } else {
            name.clone()
        };
        migrate_rule(policy, rule, &base, (&discovery, &guesses), options)
    });
    let mut rules: Vec<MigratedRule> = rules.collect();
    distinguish(&mut rules);
    apply_one::apply(policy, &mut rules, &discovery, options);
    whole::check(policy, &mut rules, &discovery, options);
    mutate::whole(policy, &mut rules, &discovery, options);
    unite::unite(policy, &mut rules, &discovery, options);
    Migration { rules }
}

/// Gives policies of different rules different names.
fn distinguish(rules: &mut [MigratedRule]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for object in rules.iter_mut().flat_map(|rule| &mut rule.objects) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut free = name.clone();
        let mut number = 1;
        while !taken.insert(free.clone()) {
            number += 1;
            free = format!("{name}-{number}");
        }
        object["metadata"]["name"] = json!(free);
    }
}

/// A name of an object from a name of a rule.
pub(crate) fn identifier(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let clean: String = lower
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .collect();
    let words: Vec<&str> = clean.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// The policy with some of its rules, as an object.
pub(crate) fn cut(policy: &ClassicPolicy, rules: &[&Rule]) -> Json {
    let pairs = |list: &[(kyvtest_model::policy::Text, kyvtest_model::policy::Text)]| -> Json {
        let each = list.iter().map(|(key, value)| (key.value.clone(), json!(value.value)));
        Json::Object(each.collect())
    };
    let mut metadata = json!({
        "name": policy.metadata.name.value,
        "labels": pairs(&policy.metadata.labels),
        "annotations": pairs(&policy.metadata.annotations),
    });
    if let Some(namespace) = &policy.metadata.namespace {
        metadata["namespace"] = json!(namespace.value);
    }
    // Another rule may keep this one from counting for pod controllers.
    if autogen::controllers(policy).contains("none") {
        metadata["annotations"][autogen::ANNOTATION] = json!("none");
    }
    let mut spec = policy.spec.source.document().root().to_serde();
    let rules = rules.iter().map(|rule| rule.source.document().root().to_serde());
    spec["rules"] = rules.collect();
    // A policy that looks at no request would be like any other such policy.
    spec["admission"] = json!(true);
    // A policy where this matters is refused.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("applyRules");
    }
    json!({
        "apiVersion": policy.api_version,
        "kind": policy.kind.name(),
        "metadata": metadata,
        "spec": spec,
    })
}

/// A policy with its only rule twice.
fn doubled(policy: &Json) -> Json {
    let mut policy = policy.clone();
    let mut again = policy["spec"]["rules"][0].clone();
    let name = again["name"].as_str().unwrap_or_default();
    again["name"] = json!(format!("{}-2", name.chars().take(60).collect::<String>()));
    if let Some(rules) = policy["spec"]["rules"].as_array_mut() {
        rules.push(again);
    }
    policy
}

fn migrate_rule(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    (discovery, guesses): (&Discovery, &[Guess]),
    options: &Options,
) -> MigratedRule {
    let mut migrated = MigratedRule {
        name: rule.name.value.clone(),
        label: RuleLabel::Proven,
        reason: String::new(),
        place: rule.span,
        objects: Vec::new(),
        variants: Vec::new(),
        rejected: Vec::new(),
        in_cel: rule.validate.as_ref().is_some_and(|validate| validate.cel.is_some()),
        counterexample: None,
        notes: Vec::new(),
    };
    if let Some(translated) = other(policy, rule, base, (discovery, guesses), options) {
        match translated {
            Ok(translated) => {
                migrated.label = if translated.is_proven {
                    RuleLabel::Proven
                } else {
                    RuleLabel::Tested(translated.requests)
                };
                migrated.reason = translated.reason;
                migrated.objects = translated.objects;
                migrated.variants = translated.variants;
                migrated.notes = translated.notes;
            }
            Err(refusal) => {
                migrated.label = RuleLabel::NotMigrated(refusal.code);
                migrated.reason = refusal.reason;
                migrated.place = refusal.span.unwrap_or(rule.span);
            }
        }
        return migrated;
    }
    match best(policy, rule, base, (discovery, guesses), options) {
        Ok(Translation {
            objects,
            variants,
            comparison,
            notes,
            dropped,
        }) => {
            migrated.counterexample = dropped;
            migrated.label = match comparison.label {
                Label::Proven => RuleLabel::Proven,
                Label::Bounded { k } => RuleLabel::Bounded(k),
                _ => RuleLabel::Tested(comparison.requests),
            };
            migrated.reason = comparison.reason;
            migrated.objects = objects;
            migrated.variants = variants;
            migrated.notes = notes;
            migrated.notes.extend(settings::notes(policy, rule));
            let own = guesses.iter().filter(|guess| guess.is_named_by(rule));
            migrated.notes.extend(own.map(Guess::note));
        }
        Err(failed) => {
            let Failure {
                refusal,
                counterexample,
                rejected,
            } = *failed;
            migrated.label = RuleLabel::NotMigrated(refusal.code);
            migrated.reason = refusal.reason;
            migrated.place = refusal.span.unwrap_or(rule.span);
            migrated.counterexample = counterexample;
            migrated.rejected = rejected;
        }
    }
    migrated
}

/// The translation of a rule that does not validate; `None` if it does.
fn other(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    kinds: (&Discovery, &[Guess]),
    options: &Options,
) -> Option<Result<Translated, Refusal>> {
    if mutate::is_about(rule) {
        return Some(mutate::translate(policy, rule, base, kinds, options));
    }
    if generate::is_about(rule) {
        return Some(generate::translate(policy, rule, base, kinds, options));
    }
    verify_images::is_about(rule).then(|| verify_images::translate(policy, rule, base, kinds))
}

/// Policies that replace a rule, and how they compare with it.
struct Translation {
    objects: Vec<Json>,
    variants: Vec<Vec<&'static str>>,
    comparison: Comparison,
    notes: Vec<String>,
    /// An update of an object that violated the rule before, which is no longer allowed.
    dropped: Option<Box<Counterexample>>,
}

impl Translation {
    /// Shows what becomes of violations that were there before, if the translation refuses them.
    fn without_existing(mut self, kept: &Side, discovery: &Discovery, options: &Options) -> Self {
        let Ok(right) = Side::from_objects(&self.objects, discovery) else {
            return self;
        };
        let comparison = compare_sides(kept, &right, discovery, &options.proof);
        if let (Label::Refuted(_), Some(example)) = (&comparison.label, comparison.counterexample) {
            self.notes
                .push("updates of objects that violated the rule before are refused from now on".to_owned());
            self.dropped = Some(example);
        }
        self
    }
}

/// Why a rule has no translation.
struct Failure {
    refusal: Refusal,
    counterexample: Option<Box<Counterexample>>,
    rejected: Vec<Json>,
}

type Failed = Box<Failure>;

#[expect(clippy::unnecessary_box_returns, reason = "errors are boxed to keep results small")]
fn failed(refusal: Refusal) -> Failed {
    Box::new(Failure {
        refusal,
        counterexample: None,
        rejected: Vec::new(),
    })
}

/// The ways to translate a rule, from the one that reads best: fewer policies are better.
fn styles(source: Source<'_>, keeps_existing: bool, discovery: &Discovery) -> Vec<Style> {
    let mut styles: Vec<Style> = Vec::new();
    for (deletions, literal) in [(false, false), (false, true), (true, true)] {
        let all = [Preconditions::Match, Preconditions::Or, Preconditions::Choose];
        let mut own = all.map(|preconditions| Style {
            preconditions,
            deletions,
            literal,
            keeps_existing,
        });
        if source.rule.preconditions.is_some() {
            own.sort_by_cached_key(|style| drafts(source, *style, discovery).map_or(usize::MAX, |drafts| drafts.len()));
        }
        styles.extend(own);
    }
    styles
}

/// The best translation of a rule.
fn best(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    (discovery, guesses): (&Discovery, &[Guess]),
    options: &Options,
) -> Result<Translation, Failed> {
    settings::check(policy, rule, discovery).map_err(failed)?;
    let keeps = options.existing == Existing::Keep;
    let mut original = cut(policy, &[rule]);
    if !keeps {
        original["spec"]["rules"][0]["validate"]["allowExistingViolations"] = json!(false);
    }
    let side = |object: &Json| Side::from_objects(std::slice::from_ref(object), discovery);
    let side = |object: &Json| match side(object) {
        // Kyverno checks more of a policy with one rule, which it could convert. The same rule twice is the same policy.
        Err(_) if policy.spec.rules.len() > 1 => side(&doubled(object)),
        side => side,
    };
    let invalid = |message: String| failed(Refusal::new(RefusalCode::Invalid, message).at(rule.span));
    let left = side(&original).map_err(invalid)?;
    let Some(mut only) = left.loaded().classic().next().map(|policy| (**policy).clone()) else {
        return Err(invalid("the policy cannot be read".to_owned()));
    };
    only.spec.rules.truncate(1);
    let source = Source {
        cut: &only,
        rule,
        guesses,
    };
    let finish = |translation: Translation| {
        if keeps || !source.forgives() {
            return translation;
        }
        match side(&cut(policy, &[rule])) {
            Ok(kept) => translation.without_existing(&kept, discovery, options),
            Err(_) => translation,
        }
    };
    let mut tried: Vec<Vec<Draft>> = Vec::new();
    let mut tested = None;
    let mut refuted: Option<Failed> = None;
    for style in styles(source, keeps, discovery) {
        // Without preconditions and context there is nothing that could fail to evaluate.
        let plain = rule.preconditions.is_none() && rule.context.is_none();
        if style.deletions && (plain || tested.is_some()) {
            break;
        }
        let drafts = drafts(source, style, discovery).map_err(failed)?;
        if tried.contains(&drafts) {
            continue;
        }
        let proven = assemble::objects(&only, base, &drafts);
        let right = Side::from_objects(&proven, discovery).map_err(|message| {
            let reason = format!("the translation is not a valid policy: {message}");
            failed(Refusal::new(RefusalCode::Refuted, reason).at(rule.span))
        })?;
        // Once a translation has been tested, another one is of use only if it is proven.
        let mut proof = options.proof.clone();
        if tested.is_some() {
            proof.tries = 0;
            proof.cases /= if style.literal { 1 } else { 4 };
        }
        let comparison = compare_sides(&left, &right, discovery, &proof);
        let objects = assemble::objects(policy, base, &drafts);
        let mut notes: Vec<String> = Vec::new();
        for note in drafts.iter().flat_map(|draft| &draft.notes) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        let covered = drafts
            .iter()
            .flat_map(|draft| draft.scopes.iter().map(|_| draft.variants.clone()));
        let variants = covered.collect();
        tried.push(drafts);
        let different = matches!(comparison.label, Label::Refuted(_)) || comparison.fault;
        if comparison.label == Label::Proven {
            let proven = Translation {
                objects,
                variants,
                comparison,
                notes,
                dropped: None,
            };
            return Ok(finish(proven));
        }
        if different {
            let reason = "the translation decides a request differently; it is not written";
            let refusal = Refusal::new(RefusalCode::Refuted, reason).at(rule.span);
            refuted.get_or_insert_with(|| {
                Box::new(Failure {
                    refusal,
                    counterexample: comparison.counterexample,
                    rejected: objects,
                })
            });
        } else {
            tested.get_or_insert(Translation {
                objects,
                variants,
                comparison,
                notes,
                dropped: None,
            });
        }
    }
    match (tested, refuted) {
        (Some(tested), _) => Ok(finish(tested)),
        (None, Some(refuted)) => Err(refuted),
        (None, None) => Err(invalid("there is no translation".to_owned())),
    }
}
