//! A suite for policies that have none: one passing and one failing resource for each rule.
//!
//! Resources come from the search of [`kyvtest_prove::behaviour::examples`], and from the prover if results depend on
//! looked-up objects or parameters; each case is run before it is written, so that a new suite passes. Missing resources are
//! reported, never invented.
//!
//! Upstream counterpart: none.

mod proven;
mod subject;

use kyvtest_model::policy::Policy;
use std::{cell::OnceCell, collections::BTreeSet, fmt::Write as _, sync::Arc};

use serde_json::Value as Json;

use self::subject::Subject;
use super::{
    fill::{Frame, Lookups, Missing, Written, resource, suites},
    mutation,
    suite_writer::File,
};
use crate::run::{
    Case, Divergence, Outcome, Settings,
    analysis::{Behaviour, RequestOutcome, Shown},
    run,
};
use crate::suite::{self, Files, Memory, Options, Overlay, Suite};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    text::path::join,
    value::Document,
};
use kyvtest_model::{
    kube::{Discovery, Operation},
    policy::{ParamKind, Validation},
    verdict::Status,
};
use kyvtest_prove::{
    self, Layer,
    behaviour::{Behaviours, examples},
    seeds::{merge, seeds},
};

/// The path limit of the search for one rule.
const PATHS: u64 = 100_000;

/// The search result for a rule.
#[derive(Debug, Clone)]
pub struct Rule {
    pub policy: String,
    /// `None` for a policy without rules.
    pub rule: Option<String>,
    /// A passing resource was found.
    pub passes: bool,
    /// A failing resource was found.
    pub fails: bool,
    /// Why something is missing, if known.
    pub why: String,
}

impl Rule {
    /// Describes the missing resources; empty if there are none.
    pub fn missing(&self) -> String {
        let what = match (self.passes, self.fails) {
            (true, true) => return String::new(),
            (true, false) => "no failing resource was found",
            (false, true) => "no passing resource was found",
            (false, false) => "no resource was found",
        };
        let rule = self
            .rule
            .as_ref()
            .map_or(String::new(), |rule| format!(", rule `{rule}`"));
        let why = if self.why.is_empty() {
            String::new()
        } else {
            format!(": {}", self.why)
        };
        format!("policy `{}`{rule}: {what}{why}", self.policy)
    }
}

/// A new suite.
#[derive(Debug)]
pub struct Skeleton {
    /// Directories, relative to that of the suite, with their files. Requests of several users need several suites.
    pub directories: Vec<(String, Vec<File>)>,
    pub rules: Vec<Rule>,
    pub problems: (Vec<Diagnostic>, Sources),
}

/// A case under construction.
struct Candidate {
    rule: usize,
    passes: bool,
    /// Alternatives to try in order: the request, and whether the result depends on the user.
    forms: Vec<(Shown, bool)>,
    /// The kind of the policy's parameters.
    param_kind: Option<ParamKind>,
    /// Whether the policy looks up objects of the cluster.
    reads_cluster: bool,
    form: usize,
    /// Whether the current form has been adjusted to the verdict of the whole policy.
    adjusted: bool,
}

impl Candidate {
    /// Moves on after a failing form: the same form with the actual verdict, if that is still useful, else the next
    /// one.
    fn retry(&mut self, answer: Option<(Status, Option<Divergence>)>) {
        let of_use = |status: Status| match status {
            Status::Pass => self.passes,
            Status::Fail | Status::Warn => !self.passes,
            _ => false,
        };
        let answer = answer.filter(|(status, _)| !self.adjusted && of_use(*status));
        match (answer, self.forms.get_mut(self.form)) {
            (Some((status, divergence)), Some((shown, _))) => {
                // A rule alone and its whole policy may differ from their native counterparts in different ways.
                shown.kyverno.status = status;
                shown.divergence = divergence;
                self.adjusted = true;
            }
            _ => {
                self.form += 1;
                self.adjusted = false;
            }
        }
    }
}

/// A failing row, and its actual verdict if there is one.
type Wrong = (usize, Option<(Status, Option<Divergence>)>);

/// Builds a suite for the policies of `probe`, a suite in the same directory without expectations.
pub fn skeleton(probe: &Suite, frame: &Frame, settings: &Settings, files: &dyn Files, directory: &str) -> Skeleton {
    let mut rules = Vec::new();
    let mut used = BTreeSet::new();
    let mut candidates = Vec::new();
    for subject in subject::subjects(probe) {
        let number = rules.len();
        rules.push(Rule {
            policy: subject.original.name().to_owned(),
            rule: subject.rule.clone(),
            passes: false,
            fails: false,
            why: subject.why.to_owned(),
        });
        if subject.why.is_empty() {
            let own = &mut rules[number];
            candidates.extend(rule_cases(&subject, own, number, &mut used, probe, settings));
        }
    }
    let mut problems = (Vec::new(), Sources::new());
    let mut directories;
    // Every round removes at least one form.
    loop {
        candidates.retain(|candidate| candidate.form < candidate.forms.len());
        for (number, rule) in rules.iter_mut().enumerate() {
            let has = |passes: bool| {
                let mut own = candidates.iter();
                own.any(|one| one.rule == number && one.passes == passes)
            };
            (rule.passes, rule.fails) = (has(true), has(false));
        }
        let frame = Frame {
            head: head(frame, &rules),
            ..frame.clone()
        };
        let missing: Vec<Missing<'_>> = candidates
            .iter()
            .filter_map(|candidate| {
                let (shown, has_user) = candidate.forms.get(candidate.form)?;
                let rule = rules.get(candidate.rule)?;
                Some(Missing {
                    policy: &rule.policy,
                    rule: rule.rule.as_deref(),
                    has_several_rules: false,
                    text: "",
                    shown,
                    has_user: *has_user,
                    looked_up: Some(Lookups::of(
                        shown,
                        candidate.param_kind.as_slice(),
                        candidate.reads_cluster,
                    )),
                })
            })
            .collect();
        let written = suites(&frame, &missing);
        directories = place(&written);
        let mut bad: Vec<Wrong> = Vec::new();
        for (suite, (below, own)) in written.iter().zip(&directories) {
            match check(own, &join(directory, below), files, settings) {
                Ok(wrong) => {
                    let number = |(row, answer): Wrong| Some((*suite.cases.get(row)?, answer));
                    bad.extend(wrong.into_iter().filter_map(number));
                }
                Err(found) => {
                    problems = found;
                    bad.extend(suite.cases.iter().map(|number| (*number, None)));
                }
            }
        }
        if bad.is_empty() {
            break;
        }
        for (number, answer) in bad {
            if let Some(candidate) = candidates.get_mut(number) {
                candidate.retry(answer);
            }
        }
    }
    // What changes objects has a suite of its own, below the others if there are any.
    let (below, frame) = if directories.is_empty() {
        (".", frame.clone())
    } else {
        ("mutation", frame.deeper())
    };
    if let Some((own, found)) = mutation::suite_of(probe, &frame, settings, files, &join(directory, below)) {
        rules.extend(found);
        directories.extend((!own.is_empty()).then(|| (below.to_owned(), own)));
    }
    Skeleton {
        directories,
        rules,
        problems,
    }
}

/// The comments at the top of the test file.
fn head(frame: &Frame, rules: &[Rule]) -> String {
    let mut head = frame.head.clone();
    let missing: Vec<String> = rules
        .iter()
        .map(Rule::missing)
        .filter(|text| !text.is_empty())
        .collect();
    if !missing.is_empty() {
        head.push_str("#\n# To write by hand:\n");
        for text in missing {
            let _ = writeln!(head, "# - {}", text.replace(char::is_control, " "));
        }
    }
    head
}

/// The first suite is in the directory itself, the others are below it.
fn place(written: &[Written]) -> Vec<(String, Vec<File>)> {
    let place = |(number, suite): (usize, &Written)| {
        let below = if number == 0 {
            ".".to_owned()
        } else {
            format!("user-{}", number + 1)
        };
        (below, suite.files.clone())
    };
    written.iter().enumerate().map(place).collect()
}

/// Runs a suite that is not yet written, and returns the failing rows.
fn check(
    own: &[File],
    directory: &str,
    files: &dyn Files,
    settings: &Settings,
) -> Result<Vec<Wrong>, (Vec<Diagnostic>, Sources)> {
    let mut over = Memory::default();
    for file in own {
        over.add(&join(directory, file.name), file.text.as_bytes());
    }
    let overlay = Overlay { under: files, over };
    let path = join(directory, "kyverno-test.yaml");
    let mut wrong = Vec::new();
    for suite in suite::load(&overlay, &path, &Options::in_cluster(&settings.discovery)) {
        let run = run(&suite, settings);
        if run.is_broken() {
            return Err((run.diagnostics, suite.sources));
        }
        for row in 0..suite.rows().len() {
            let cases: Vec<&Case> = run.cases.iter().filter(|case| case.row == Some(row)).collect();
            let is_met = |case: &&Case| case.outcome == Outcome::Pass && !case.diverges();
            if cases.is_empty() || !cases.iter().all(is_met) {
                let answer = cases.first().filter(|_| cases.len() == 1).and_then(|case| {
                    let divergence = case.divergence.as_deref().filter(|found| found.class.fails()).cloned();
                    Some((case.kyverno.as_ref()?.status, divergence))
                });
                wrong.push((row, answer));
            }
        }
    }
    Ok(wrong)
}

/// The name of the policy, if there is only one.
pub fn policy_name(probe: &Suite) -> Option<String> {
    let validating = probe.policies.policies.iter().filter(|policy| policy.validates());
    let mut names = validating.map(Policy::name);
    let only = names.next().filter(|name| !name.is_empty()).map(str::to_owned);
    only.filter(|_| names.next().is_none())
}

fn rule_cases(
    subject: &Subject,
    own: &mut Rule,
    number: usize,
    used: &mut BTreeSet<String>,
    probe: &Suite,
    settings: &Settings,
) -> Vec<Candidate> {
    let original = &subject.original;
    let exceptions = Exceptions {
        classic: &probe.exceptions.exceptions,
        cel: &probe.exceptions.cel_exceptions,
    };
    let options = kyvtest_prove::Options {
        now: settings.now,
        paths: PATHS,
        layer: Layer::Policy,
        ..kyvtest_prove::Options::default()
    };
    let parts = match original {
        Policy::Classic(policy) => policy.spec.rules.iter().flat_map(seeds).collect(),
        _ => Vec::new(),
    };
    let discovery: &Discovery = &settings.discovery;
    let search = |original: &Policy, parts: &[Json]| examples(original, exceptions, discovery, &options, parts);
    // The search knows no parameters.
    let mut behaviours = if subject.param_kind.is_some() {
        Behaviours::default()
    } else {
        search(original, &parts)
    };
    own.why.clone_from(&behaviours.note);
    let complies = |found: &Behaviours| {
        let mut list = found.list.iter();
        list.find(|one| one.fate == RequestOutcome::Complies)?
            .witness
            .as_ref()
            .and_then(resource)
    };
    // Satisfying a single expression is easier than satisfying all: try each alone, then all together.
    if subject.param_kind.is_none() && complies(&behaviours).is_none() {
        let alone = single_expressions(original);
        let found: Vec<Json> = alone.iter().filter_map(|one| complies(&search(one, &parts))).collect();
        if found.len() > 1 {
            let all = found.iter().fold(Json::Null, |all, object| merge(&all, &part(object)));
            behaviours.list.extend(search(original, &[all]).list);
        }
    }
    let (proven, searched) = (OnceCell::new(), OnceCell::new());
    let mut candidates = Vec::new();
    for passes in [true, false] {
        let wanted = |behaviour: &&Behaviour| match behaviour.fate {
            RequestOutcome::Complies => passes,
            RequestOutcome::Violates(_) => !passes,
            RequestOutcome::LeftAlone
            | RequestOutcome::Skipped
            | RequestOutcome::Changed
            | RequestOutcome::Unchanged
            | RequestOutcome::Fails(_) => false,
        };
        let mut shown = witnesses(&behaviours, wanted);
        if shown.is_empty() {
            let found = proven.get_or_init(|| proven::shown(&subject.objects, probe, settings));
            let found = found[usize::from(!passes)].iter();
            shown.extend(found.filter(|shown| resource(shown).is_some()));
        }
        if shown.is_empty() && subject.param_kind.is_some() {
            // Without parameters a policy also decides.
            shown = witnesses(searched.get_or_init(|| search(original, &parts)), wanted);
        }
        let mut name = name(original.name(), own.rule.as_deref(), passes);
        // Rows name resources without their kinds.
        if !used.insert(name.clone()) {
            name = format!("{name}-{}", number + 1);
        }
        let mut forms = Vec::new();
        for shown in shown.into_iter().take(4) {
            // The difference of the whole policy shows when it is run.
            let shown = &Shown {
                divergence: None,
                ..shown.clone()
            };
            let renamed = renamed(shown, &name);
            forms.extend(renamed.iter().map(|one| (one.clone(), false)));
            forms.extend(renamed.map(|one| (one, true)));
            forms.push((shown.clone(), false));
            forms.push((shown.clone(), true));
        }
        candidates.push(Candidate {
            rule: number,
            passes,
            forms,
            param_kind: subject.param_kind.clone(),
            reads_cluster: kyvtest_prove::body::reads(original).objects,
            form: 0,
            adjusted: false,
        });
    }
    candidates
}

/// The requests of wanted behaviours that a suite can express, the most ordinary first.
fn witnesses(behaviours: &Behaviours, wanted: impl Fn(&&Behaviour) -> bool) -> Vec<&Shown> {
    let found = behaviours.list.iter().filter(wanted);
    let found = found.filter_map(|behaviour| behaviour.witness.as_ref());
    let mut shown: Vec<&Shown> = found.filter(|shown| resource(shown).is_some()).collect();
    shown.sort_by_key(|shown| oddity(shown));
    shown
}

/// Splits the policy's expressions into conjuncts, one policy each; empty if there is only one, or too many.
fn single_expressions(original: &Policy) -> Vec<Policy> {
    const MOST: usize = 16;
    let validations: &[Validation] = match original {
        Policy::Classic(policy) => {
            let validate = policy.spec.rules.first().and_then(|rule| rule.validate.as_ref());
            let cel = validate.and_then(|validate| validate.cel.as_ref());
            cel.map_or(&[], |cel| &cel.expressions)
        }
        Policy::Validating(policy) => &policy.spec.validations,
        _ => &[],
    };
    let single: Vec<Validation> = validations.iter().flat_map(split).collect();
    if !(2..=MOST).contains(&single.len()) {
        return Vec::new();
    }
    let with = |validation: Validation| match original {
        Policy::Classic(policy) => {
            let mut policy = (**policy).clone();
            let rules = policy.spec.rules.iter_mut().filter_map(|rule| rule.validate.as_mut());
            for cel in rules.filter_map(|validate| validate.cel.as_mut()) {
                cel.expressions = vec![validation.clone()];
            }
            Policy::Classic(Arc::new(policy))
        }
        Policy::Validating(policy) => {
            let mut policy = (**policy).clone();
            policy.spec.validations = vec![validation];
            Policy::Validating(Arc::new(policy))
        }
        _ => original.clone(),
    };
    single.into_iter().map(with).collect()
}

/// Splits an expression at `&&`, ignoring parentheses and strings. A wrong guess only costs time.
fn split(validation: &Validation) -> Vec<Validation> {
    let text = validation.expression.text();
    let (mut depth, mut quote, mut start) = (0_usize, None, 0);
    let mut parts = Vec::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => {
                letters.next();
            }
            (Some(open), letter) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            // An operator that binds less tightly than `&&` leaves the expression whole.
            (None, '?' | '|') if depth == 0 && !text[at..].starts_with("?.") => return vec![validation.clone()],
            (None, '|') if depth == 0 => return vec![validation.clone()],
            (None, '&') if depth == 0 && text[at..].starts_with("&&") => {
                parts.push(&text[start..at]);
                letters.next();
                start = at + 2;
            }
            (None, _) => {}
        }
    }
    parts.push(&text[start..]);
    let alone = parts.iter().map(|part| Validation {
        expression: validation.expression.with_text(part.trim()),
        message_expression: None,
        ..validation.clone()
    });
    alone.collect()
}

/// An object without the fields that every object has.
fn part(object: &Json) -> Json {
    let mut part = object.clone();
    if let Some(map) = part.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        if let Some(metadata) = map.get_mut("metadata").and_then(Json::as_object_mut) {
            metadata.remove("name");
            metadata.remove("namespace");
        }
    }
    part
}

/// Ranks examples: the smaller, the more usual.
fn oddity(shown: &Shown) -> (bool, Operation, usize) {
    let diverges = shown.divergence.as_ref().is_some_and(|found| found.class.fails());
    let request = &shown.scenario.request;
    let roles = request
        .roles
        .iter()
        .chain(&request.cluster_roles)
        .map(Vec::len)
        .sum::<usize>();
    let labels = shown.scenario.namespace_labels.len();
    (
        diverges,
        request.operation,
        roles + labels + request.user.groups().len(),
    )
}

/// A name for a resource: that of the rule or policy, and the expected result.
fn name(policy: &str, rule: Option<&str>, passes: bool) -> String {
    let text = rule.unwrap_or(policy).to_lowercase();
    let mut name: String = text
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .take(40)
        .collect();
    name = name.trim_matches('-').to_owned();
    let end = if passes { "pass" } else { "fail" };
    if name.is_empty() {
        end.to_owned()
    } else {
        format!("{name}-{end}")
    }
}

/// The same request about a renamed object; running it shows whether that changes the result.
fn renamed(shown: &Shown, name: &str) -> Option<Shown> {
    let mut shown = shown.clone();
    let request = &mut shown.scenario.request;
    // The name of a Namespace is also one of its labels.
    if request.resource.object_kind.kind == "Namespace" {
        return None;
    }
    for document in [&mut request.object, &mut request.old_object] {
        let mut object = document.root().to_serde();
        if let Some(old) = object.get_mut("metadata").and_then(|metadata| metadata.get_mut("name")) {
            *old = Json::from(name);
            *document = Document::from(&object);
        }
    }
    name.clone_into(&mut request.name);
    Some(shown)
}

/// Explains why there is no suite.
pub fn nothing(rules: &[Rule]) -> Diagnostic {
    let mut diagnostic = Diagnostic::new(Code::NoExample, "no resource was found to test a rule with");
    for rule in rules {
        diagnostic = diagnostic.with_note(rule.missing());
    }
    diagnostic.with_help("nothing was written: a suite without rows checks nothing")
}
