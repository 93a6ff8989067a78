//! `mutate` rules as MutatingPolicies.
//!
//! No upstream counterpart for the translation. Both sides run on the same requests, and the objects after them must be equal;
//! a rule whose translation yields another object is not written. The prover then decides whether all requests give the same.

mod anchors;
mod compare;
mod foreach;
mod json_patch;
pub(crate) mod layout;
mod lists;
mod object;
mod overlay;
mod place;
mod pointer;
mod proof;

use kyvtest_kyverno::autogen;
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{ClassicPolicy, Rule, Subtree},
};
use kyvtest_prove::repair::RuleScope;
use serde_json::Value as Json;

use self::{overlay::Overlay, place::Place};
use crate::{
    Expr, Options, Refusal, RefusalCode, conditions, context,
    draft::scopes_of,
    guess::Guess,
    kinds::{self, Translated, kinds_of, object_scope},
    names::{Names, Variables},
    query::{Seen, Type, Value},
    settings,
};
use overlay::Walker;

pub(crate) use compare::whole;

/// The parts of one or several MutatingPolicies that differ only in their scope.
#[derive(Debug, Clone, PartialEq)]
struct Draft {
    suffix: &'static str,
    scopes: Vec<RuleScope>,
    /// Name and expression.
    conditions: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    mutations: Vec<Mutation>,
    /// Whether apply configurations replace what structured merge takes as a whole.
    replaces: bool,
    notes: Vec<String>,
}

/// One entry of `mutations`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mutation {
    Apply(String),
    Patch(String),
}

/// Translates a rule, and compares both.
pub(crate) fn translate(
    policy: &ClassicPolicy,
    rule: &Rule,
    base: &str,
    (discovery, guesses): (&Discovery, &[Guess]),
    options: &Options,
) -> Result<Translated, Refusal> {
    settings::check(policy, rule, discovery)?;
    let only = kinds::alone(policy, rule, discovery)?;
    let Some(mutate) = &rule.mutate else {
        return Err(Refusal::new(RefusalCode::RuleType, "the rule does not mutate").at(rule.span));
    };
    if let Some(targets) = mutate.node().get("targets").filter(|targets| !targets.is_null()) {
        let at = kyvtest_model::policy::place(mutate.file(), targets.span());
        let reason = "a MutatingPolicy with targets also changes the object that triggers it when it is tested, and is \
                      not bound to its trigger; write `targetMatchConstraints` by hand";
        return Err(Refusal::new(RefusalCode::RuleType, reason).at(at));
    }
    let drafts = drafts(&only, rule, (discovery, guesses)).map_err(|refusal| refusal.at(rule.span))?;
    let objects = object::objects(policy, base, &drafts);
    let requests = compare::rule(&only, &object::objects(&only, base, &drafts), discovery, options)
        .map_err(|refusal| refusal.at(rule.span))?;
    let claim = proof::claim(&only, &object::objects(&only, base, &drafts), discovery, options)?;
    let covered = drafts
        .iter()
        .flat_map(|draft| draft.scopes.iter().map(|_| vec![draft.suffix]));
    let mut notes: Vec<String> = Vec::new();
    for note in drafts.iter().flat_map(|draft| &draft.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    Ok(Translated {
        variants: covered.collect(),
        objects,
        requests: requests + claim.requests,
        is_proven: claim.is_proven,
        reason: claim.reason,
        notes,
    })
}

fn drafts(
    only: &ClassicPolicy,
    rule: &Rule,
    (discovery, guesses): (&Discovery, &[Guess]),
) -> Result<Vec<Draft>, Refusal> {
    let all = autogen::all_rules(only);
    let mut drafts = Vec::new();
    for (number, variant) in all.iter().enumerate() {
        // The first is the rule itself, whose places are those of the source.
        let own: &Rule = if number == 0 { rule } else { variant };
        let suffix = match variant.name.value.as_str() {
            name if number == 0 || !name.starts_with("autogen-") => "",
            name if name.starts_with("autogen-cronjob-") => "cronjobs",
            _ => "controllers",
        };
        let operations = [Operation::Create, Operation::Update];
        for scope in scopes_of(only, own, &operations, (discovery, guesses))? {
            let draft = draft(own, suffix, scope);
            drafts.push(match draft {
                Err(refusal) if number > 0 => return Err(Refusal { span: None, ..refusal }.at(rule.span)),
                draft => draft?,
            });
        }
    }
    if let Some(webhook) = &only.spec.webhook {
        for draft in &mut drafts {
            let own = webhook.match_conditions.iter().map(|condition| {
                let text = condition.expression.text().trim().to_owned();
                (condition.name.value.clone(), text)
            });
            draft.conditions.splice(0..0, own);
        }
    }
    Ok(drafts)
}

fn given(part: Option<&Subtree>) -> Option<&Subtree> {
    part.filter(|part| !part.node().is_null())
}

fn draft(rule: &Rule, suffix: &'static str, scope: RuleScope) -> Result<Draft, Refusal> {
    let kinds = kinds_of(&scope);
    let mut variables = Variables::default();
    let mut seen = object_scope(kinds.clone());
    seen.set_seen(Seen::Unvalidated);
    seen.set_operations(vec![Operation::Create, Operation::Update]);
    let mut names = Names::new(seen, &mut variables);
    if let Some(entries) = given(rule.context.as_ref()) {
        context::context(entries, &mut names);
    }
    let mut tests: Vec<(&str, Expr)> = Vec::new();
    if let Some(tree) = given(rule.preconditions.as_ref()) {
        tests.push(("preconditions", conditions::conditions(tree, &mut names)?));
    }
    let object =
        Value::new(Expr::primary("object"), Type::of_kinds(&kinds, Seen::Unvalidated)).with_path(Some(Vec::new()));
    let root = Place::root(&kinds, object);
    let overlays = patches(rule, &root, &mut names)?;
    let mut mutations = Vec::new();
    let mut replaces = false;
    let mut notes = Vec::new();
    for overlay in overlays {
        tests.extend(overlay.conditions.into_iter().map(|test| ("patch", test)));
        mutations.extend(overlay.apply.map(|expr| Mutation::Apply(expr.as_str().to_owned())));
        let patches = overlay.patches.iter();
        mutations.extend(patches.map(|expr| Mutation::Patch(expr.as_str().to_owned())));
        replaces |= overlay.replaces;
        notes.extend(overlay.notes);
    }
    let tests: Vec<(String, String)> = tests
        .into_iter()
        .filter(|(_, test)| !test.is_bool(true))
        .map(|(name, test)| (name.to_owned(), test.as_bool().as_str().to_owned()))
        .collect();
    let texts = tests.iter().map(|(_, text)| text.as_str());
    let texts = texts.chain(mutations.iter().map(Mutation::text));
    variables.retain_used(texts.collect::<Vec<_>>());
    notes.extend(variables.lookups().iter().map(|lookup| {
        format!(
            "Kyverno's admission controller needs permission to {} `{}` ({})",
            lookup.verb, lookup.resource, lookup.api_version
        )
    }));
    Ok(Draft {
        suffix,
        scopes: vec![scope],
        conditions: tests,
        variables: variables
            .iter()
            .map(|(name, expr)| (name.to_owned(), expr.as_str().to_owned()))
            .collect(),
        mutations,
        replaces,
        notes,
    })
}

impl Mutation {
    fn text(&self) -> &str {
        match self {
            Self::Apply(text) | Self::Patch(text) => text,
        }
    }
}

/// What the rule does to an object.
fn patches(rule: &Rule, root: &Place<'_>, names: &mut Names<'_>) -> Result<Vec<Overlay>, Refusal> {
    let Some(mutate) = &rule.mutate else {
        return Err(Refusal::new(RefusalCode::RuleType, "the rule does not mutate"));
    };
    let part = |name: &str| mutate.node().get(name).filter(|part| !part.is_null());
    let at = |node: kyvtest_go_compat::yaml::Node<'_>| kyvtest_model::policy::place(mutate.file(), node.span());
    if let Some(node) = part("patchStrategicMerge") {
        let document = kyvtest_go_compat::value::Document::from(node);
        let patch = kyvtest_go_compat::value::Data::from(document.root());
        let overlay = Walker::new(names, None).object(&patch, root);
        return Ok(vec![overlay.map_err(|refusal| refusal.at(at(node)))?]);
    }
    if let Some(node) = part("patchesJson6902") {
        let text = node.as_str().unwrap_or_default();
        let Some(object) = &root.value else {
            return Err(Refusal::new(RefusalCode::Pattern, "no object"));
        };
        let patches = json_patch::translate(text, object, &[], names).map_err(|refusal| refusal.at(at(node)))?;
        return Ok(vec![Overlay {
            patches,
            ..Overlay::default()
        }]);
    }
    match part("foreach") {
        Some(node) => foreach::blocks(node, mutate.file(), root, names),
        None => Err(Refusal::new(RefusalCode::RuleType, "the rule has no patch").at(mutate.span())),
    }
}

/// Whether a rule belongs to this module.
pub(crate) fn is_about(rule: &Rule) -> bool {
    rule.mutate.is_some()
}

/// The new policies as the rest of the program reads them.
fn load(objects: &[Json]) -> Result<kyvtest_model::policy::Loaded, Refusal> {
    kinds::load(objects).map_err(|message| {
        let reason = format!("the translation is not a valid policy: {message}");
        Refusal::new(RefusalCode::Refuted, reason)
    })
}
