//! The data lens of a run: the objects that policies see, and the effect on the rows.
//!
//! A request is built from the object as written; in the lens `normalised` the API server completes it before any
//! policy sees it. An object that the server rejects is evaluated as written, with a warning.
//!
//! Upstream counterpart: none; `kyverno test` evaluates objects as written.

use rustc_hash::FxHashMap;

use super::{
    Case, Engine, Response, Settings,
    check::Check,
    compat,
    engines::{Engines, native_id},
    response::Key,
};
use crate::suite::{Resource, Suite};
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Severity, Sources, Span},
    yaml::{self, Limits, Mode, Node},
};
use kyvtest_kyverno::response::RuleResponse;
use kyvtest_model::{kube::Request, policy::PolicyId, verdict::Status};
use kyvtest_prove::server::Refused;

/// The rows for which a run records whether their status differs on the object as written. Each of them is evaluated a
/// second time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataNotes {
    #[default]
    All,
    /// Rows that have an unexpected status or expect more than a status: all that a report shows in full by default.
    Failing,
}

/// A request as policies see it, and as written.
pub(super) struct Seen {
    pub(super) request: Request,
    /// The request as written; `None` if policies see that.
    pub(super) written: Option<Request>,
    /// The API server's error; policies then see the object as written.
    pub(super) refused: Option<Refused>,
}

/// The effect of the data lens on a policy's response.
#[derive(Debug, Clone, Default)]
pub struct LensNote {
    /// The API server rejects the object, so that the policy was evaluated on the object as written.
    pub refused: bool,
    /// The statuses of the rules on the object as written, if they differ.
    pub raw: Option<Vec<(String, Status)>>,
    /// The status of the native policy on the object as written, if it differs and decides the rows.
    pub raw_native: Option<Status>,
}

/// The rows and cases of a suite, indexed by the resources that they name.
pub(super) struct Rows<'s> {
    suite: &'s Suite,
    all: Vec<Check<'s>>,
    /// Indices of those that name their resources, by the last part of the reference and with the namespace before it.
    by_name: FxHashMap<&'s str, Vec<(Option<&'s str>, usize)>>,
    /// Indices of the others.
    others: Vec<usize>,
}

impl<'s> Rows<'s> {
    pub(super) fn of(suite: &'s Suite) -> Self {
        let all: Vec<Check<'s>> = Check::all(suite).collect();
        let mut by_name: FxHashMap<&str, Vec<(Option<&str>, usize)>> = FxHashMap::default();
        let mut others = Vec::new();
        for (position, check) in all.iter().enumerate() {
            match check.resources.filter(|_| check.specs.is_empty()) {
                Some(names) => {
                    for text in names {
                        // The path of a payload has slashes as well.
                        by_name.entry(&text.value).or_default().push((None, position));
                        if let Some((namespace, name)) = text.value.split_once('/') {
                            by_name.entry(name).or_default().push((Some(namespace), position));
                        }
                    }
                }
                None => others.push(position),
            }
        }
        Self {
            suite,
            all,
            by_name,
            others,
        }
    }

    /// The rows about a resource.
    fn about(&self, key: &Key) -> Vec<&Check<'s>> {
        let is_payload = key.kind.is_empty();
        let name = Some(key.name.as_str()).filter(|name| is_payload || !name.contains('/'));
        let of_name = name.and_then(|name| self.by_name.get(name)).into_iter().flatten();
        let is_about = |namespace: &&str| !is_payload && *namespace == key.namespace;
        let named = of_name.filter(|(namespace, _)| namespace.is_none() || namespace.as_ref().is_some_and(is_about));
        let named = named.filter_map(|(_, position)| self.all.get(*position));
        let others = self.others.iter().filter_map(|position| self.all.get(*position));
        named.chain(others.filter(|check| check.concerns(key))).collect()
    }

    /// Whether one of these rows uses the response at `position`, and its effect is to be recorded.
    fn read(&self, rows: &[&Check<'s>], responses: &[Response], position: usize, notes: DataNotes) -> bool {
        let response = &responses[position];
        rows.iter().any(|check| {
            check.operation == response.run
                && response.check_id.is_none_or(|check_id| check_id == check.id)
                && response.policy.is_named(&check.policy.value)
                && (notes == DataNotes::All || !self.passes(check, responses, &response.policy))
        })
    }

    /// Whether a row passes with the responses of a policy; `false` if more than the expected status decides.
    fn passes(&self, check: &Check<'_>, responses: &[Response], policy: &PolicyId) -> bool {
        let own = || responses.iter().filter(|response| *response.policy == *policy);
        let selected = own().flat_map(|response| {
            let rules = response.rules.iter();
            rules
                .filter(|rule| compat::answers_for(check.rule_name(), response, &rule.rule))
                .map(|rule| rule.verdict(response.scored).status)
        });
        let mut selected = selected.peekable();
        let is_met = match selected.peek() {
            None => check.expected() == Status::Skip.as_str(),
            Some(_) => selected.all(|status| status.as_str() == check.expected()),
        };
        let mut keys = own().map(|response| &response.key);
        is_met && check.result.is_some() && keys.all(|key| check.wanted(self.suite, key).is_empty())
    }
}

/// Records the policies' results for the object as written, if they differ from those for the completed object.
pub(super) fn note_differences(
    engines: &Engines<'_>,
    rows: &Rows<'_>,
    seen: &Seen,
    resource: &Resource,
    responses: &mut [Response],
) {
    for response in &mut *responses {
        response.lens.refused = seen.refused.is_some();
    }
    let Some(written) = &seen.written else { return };
    if written.object == seen.request.object && written.old_object == seen.request.old_object {
        return;
    }
    // Rows that native policies decide are not judged by the responses.
    let notes = match engines.settings.engine {
        Engine::Native => DataNotes::All,
        _ => engines.settings.data_notes,
    };
    let about = responses
        .first()
        .map(|response| rows.about(&response.key))
        .unwrap_or_default();
    let read = (0..responses.len()).filter(|position| rows.read(&about, responses, *position, notes));
    let read: Vec<&PolicyId> = read.map(|position| &*responses[position].policy).collect();
    if read.is_empty() {
        return;
    }
    let raw = raw_responses(engines, written, resource, &read);
    if engines.settings.engine == Engine::Native {
        note_native(engines, written, raw, responses);
        return;
    }
    for (id, rules) in &raw {
        let statuses = |rules: &[RuleResponse]| -> Vec<(String, Status)> {
            rules.iter().map(|rule| (rule.rule.clone(), rule.status)).collect()
        };
        let own = responses.iter().filter(|response| *response.policy == *id);
        let now: Vec<_> = own.flat_map(|response| statuses(&response.rules)).collect();
        let before = statuses(rules);
        if now != before
            && let Some(first) = responses.iter_mut().find(|response| *response.policy == *id)
        {
            first.lens.raw = Some(before);
        }
    }
}

/// The policies' responses to the request as written, in the order of all responses.
fn raw_responses(
    engines: &Engines<'_>,
    written: &Request,
    resource: &Resource,
    wanted: &[&PolicyId],
) -> Vec<(PolicyId, Vec<RuleResponse>)> {
    let host = &engines.cluster.cluster.mocks;
    let kyverno = engines.controller.policies().iter();
    let kyverno = kyverno.filter(|policy| wanted.contains(&policy.id())).map(|policy| {
        let responses = engines.kyverno(policy, written, resource, host).into_iter();
        (
            policy.id().clone(),
            responses.flat_map(|response| response.rules).collect(),
        )
    });
    let native = engines.server.policies().iter();
    let native = native.map(|policy| (native_id(policy.name()), policy));
    let native = native.filter(|(id, _)| wanted.contains(&id)).map(|(id, policy)| {
        let response = engines.native(policy, written, resource, host);
        (id, response.rules)
    });
    kyverno.chain(native).collect()
}

/// Like [`note_differences`], for runs in which the generated native policies decide the rows.
fn note_native(
    engines: &Engines<'_>,
    written: &Request,
    raw: Vec<(PolicyId, Vec<RuleResponse>)>,
    responses: &mut [Response],
) {
    let mut before: Vec<Response> = Vec::new();
    for (id, rules) in raw {
        if let Some(response) = responses.iter().find(|response| *response.policy == id) {
            before.push(Response {
                rules,
                ..response.clone()
            });
        }
    }
    let environment = engines.environment(&engines.cluster.cluster.mocks);
    engines.counterparts.compare(written, environment, &mut before, None);
    for response in responses {
        let status = |response: &Response| {
            let counterpart = response.counterpart.as_ref()?;
            Some(counterpart.native.as_ref()?.answer.status)
        };
        let raw = before.iter().find(|raw| raw.policy == response.policy).and_then(status);
        response.lens.raw_native = raw.filter(|raw| Some(*raw) != status(response));
    }
}

/// A sentence on the effect of the data lens on a case; `None` if it has none.
pub(super) fn describe(case: &Case, answers: &[&Response], rule: Option<&str>) -> Option<String> {
    if answers.iter().any(|answer| answer.lens.refused) {
        return Some("judged on the object as written: the API server rejects it".to_owned());
    }
    let with_raw = |status: Status| Some(format!("with `--data raw` the status is {status}"));
    if let Some(status) = answers.iter().find_map(|answer| answer.lens.raw_native) {
        return with_raw(status);
    }
    let (answer, raw) = answers
        .iter()
        .find_map(|answer| Some((answer, answer.lens.raw.as_ref()?)))?;
    let mut of_row = raw.iter().filter(|(name, _)| compat::answers_for(rule, answer, name));
    let before = match &case.kyverno {
        Some(_) => of_row.find(|(name, _)| Some(name) == case.rule.as_ref()),
        None => of_row.next(),
    };
    let status = |found: Option<Status>| found.unwrap_or(Status::NoMatch);
    let now = status(case.kyverno.as_ref().map(|answer| answer.status));
    let before = status(before.map(|(_, status)| *status));
    (before != now).then(|| with_raw(before)).flatten()
}

/// The warning about an object that the API server rejects, located at its first error.
pub(super) fn refusal(suite: &Suite, resource: &Resource, refused: &Refused, settings: &Settings) -> Diagnostic {
    let field = refused.errors.first().map_or("", |cause| cause.field.as_str());
    let span = place(&suite.sources, resource.origin.span, field);
    let kind = &resource.kind;
    let mut diagnostic = refused_object(&format!("this {kind}"), refused);
    diagnostic.primary = Some(span);
    let diagnostic = diagnostic.with_note("rows about it are judged on the object as written (`data=raw`)");
    if settings.strict_resources {
        diagnostic.with_severity(Severity::Error)
    } else {
        diagnostic
    }
}

/// The warning about a rejected object, without a location: the first error, the others as notes.
pub fn refused_object(subject: &str, refused: &Refused) -> Diagnostic {
    let mut errors = refused.errors.iter();
    let first = errors
        .next()
        .map_or_else(|| refused.message.clone(), ToString::to_string);
    let message = format!("the API server rejects {subject}: {first}");
    let diagnostic = Diagnostic::new(Code::RefusedObject, message);
    errors.fold(diagnostic, |diagnostic, error| diagnostic.with_note(error.to_string()))
}

/// The location of a field of an object, or of its nearest existing ancestor.
pub fn place(sources: &Sources, object: Span, field: &str) -> Span {
    let text = sources.text(object.file).map_or("", |text| &**text);
    let own = own_text(text, object).and_then(|(offset, own)| place_in(&own, offset, object, field));
    // Without the rest of the file, anchors are undefined.
    own.or_else(|| place_in(text, 0, object, field))
        .unwrap_or_else(|| Span::point(object.file, object.start))
}

/// The lines of an object with their offset in the file. Whatever precedes the object on its first line is blank, so
/// that its fields keep their columns.
fn own_text(text: &str, object: Span) -> Option<(u32, String)> {
    let own = text.get(object.start as usize..object.end as usize)?;
    if own.is_empty() {
        return None;
    }
    let before = &text[..object.start as usize];
    let offset = before.rfind('\n').map_or(0, |newline| newline + 1);
    let indent = " ".repeat(before.len() - offset);
    Some((offset as u32, indent + own))
}

/// The location of a field in a text that begins at `offset` of the file; `None` if the text does not hold the object.
fn place_in(text: &str, offset: u32, object: Span, field: &str) -> Option<Span> {
    let stream = yaml::read(text.as_bytes(), Mode::Lax, &Limits::default());
    let trees = stream.documents().iter().filter_map(|document| document.tree().ok());
    let mut node = trees
        .map(yaml::Tree::root)
        .find_map(|root| starting_at(root, object.start - offset))?;
    let mut span = Span::point(object.file, object.start);
    for step in steps(field) {
        let Some(next) = child(node, &step) else { break };
        node = next;
        let found = node.span();
        let end = text
            .get(found.start as usize..found.end as usize)
            .and_then(|text| text.find('\n'));
        let end = end.map_or(found.end, |length| found.start + length as u32);
        span = Span::new(object.file, found.start + offset, end + offset);
    }
    Some(span)
}

/// The first map at or after an offset, ignoring comments.
fn starting_at(node: Node<'_>, start: u32) -> Option<Node<'_>> {
    if node.span().end <= start {
        return None;
    }
    if node.span().start >= start && node.as_map().is_some() {
        return Some(node);
    }
    match (node.as_map(), node.as_seq()) {
        (Some(entries), _) => entries.iter().find_map(|entry| starting_at(entry.value, start)),
        (_, Some(items)) => items.iter().find_map(|item| starting_at(item, start)),
        _ => None,
    }
}

fn child<'n>(node: Node<'n>, step: &str) -> Option<Node<'n>> {
    match (node.as_seq(), step.parse::<usize>()) {
        (Some(items), Ok(index)) => items.iter().nth(index),
        _ => node.get(step),
    }
}

/// The names and indices of a path such as `spec.containers[0].image` or `metadata.annotations[a/b]`.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (step, after) = inner.split_once(']').unwrap_or((inner, ""));
            steps.push(step.to_owned());
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 {
                steps.push(rest[..end].to_owned());
            }
            rest = rest[end..].trim_start_matches('.');
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn paths_have_names_indices_and_keys() {
        assert_eq!(steps("spec.containers[0].image"), ["spec", "containers", "0", "image"]);
        assert_eq!(
            steps("metadata.annotations[a.b/c]"),
            ["metadata", "annotations", "a.b/c"]
        );
        assert_eq!(steps(""), [""; 0]);
    }
}
