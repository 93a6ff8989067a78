//! Asks the policies of a suite once more, with somebody who looks on.
//!
//! A plain run pays nothing for this: it is a second pass, over the requests that rows and cases ask about.

use super::{
    Coverage,
    items::{Programs, all},
    watch::{Watch, constraints_select},
};
use crate::run::{
    Key,
    asking::Asking,
    edit::edited,
    native,
    respond::{Asked, default_operation, requests},
};
use kyvtest_apiserver::matching::{Match, matches};
use kyvtest_cel::host::Wrapped;
use kyvtest_kyverno::{constraints, observe::Selected};
use kyvtest_model::{
    kube::Request,
    policy::{MatchConstraints, Mode},
};

/// What a suite tries of its policies.
pub(in crate::run) fn observe(plain: Asking<'_>) -> Coverage {
    let (suite, settings) = (plain.suite, plain.settings);
    let watch = Watch::new(suite);
    let host = Wrapped::observed(plain.host, &watch.observer);
    let asking = Asking { host: &host, ..plain };
    for mut asked in requests(suite, settings, &[]) {
        let operation = asked.run.unwrap_or_else(|| default_operation(suite, asked.resource));
        let old = asked.old.take();
        let request = asking.surroundings.request(suite, asked.resource, operation, old);
        classic(asking, &watch, &asked, &request);
        validating(asking, &watch, &asked, &request);
        natives(asking, &watch, &asked, &request);
    }
    payloads(asking, &watch);
    let policies = asking.policies;
    let classic = policies
        .classic()
        .map(|(compiled, webhook)| watch.classic(compiled, webhook));
    let validating = suite.policies.validating_policies.iter().filter_map(|policy| {
        let own = policies
            .validating
            .iter()
            .filter(|other| other.kind == policy.kind() && other.compiled.name() == policy.metadata.name.value);
        let programs: Vec<Programs<'_>> = own.map(|other| other.compiled.programs()).collect();
        (!programs.is_empty()).then(|| watch.validating(policy, &programs))
    });
    let native = suite.policies.vaps.iter().filter_map(|policy| {
        let mut compiled = policies.native.policies.iter();
        let own = compiled.find(|compiled| compiled.name() == policy.metadata.name.value)?;
        Some(watch.native(policy, native::KIND, own.programs()))
    });
    all(suite, classic.chain(validating).chain(native).collect())
}

fn classic(asking: Asking<'_>, watch: &Watch<'_>, asked: &Asked<'_>, request: &Request) {
    for (compiled, webhook) in asking.policies.classic() {
        let policy = compiled.policy();
        let (kind, name) = (policy.kind.name(), policy.metadata.name.value.as_str());
        if !watch.is_asked(name, asked) {
            continue;
        }
        let answers = asking.classic(compiled, webhook, request, asked.resource);
        let rules = policy.spec.rules.iter().map(|rule| rule.name.value.as_str());
        watch.answers(kind, name, rules, &answers);
        let edited = edited(asking.suite, name, asked.resource, request);
        let request = edited.as_ref().unwrap_or(request);
        // A request that the webhook does not hand over is not selected either.
        let delivered = asking.delivered(webhook, request);
        let input = asking.input(delivered.as_deref().unwrap_or(request));
        watch.selected(kind, name, &compiled.selected(&input));
    }
}

fn validating(asking: Asking<'_>, watch: &Watch<'_>, asked: &Asked<'_>, request: &Request) {
    let policies = &asking.policies.validating;
    for (number, policy) in policies.iter().enumerate() {
        let name = policy.compiled.name();
        let same =
            |other: &&super::super::respond::Validating| other.kind == policy.kind && other.compiled.name() == name;
        let is_first = policies.iter().position(|other| same(&other)) == Some(number);
        if !is_first || !watch.is_asked(name, asked) {
            continue;
        }
        let (mut answers, mut found): (Vec<_>, Vec<Selected>) = (Vec::new(), Vec::new());
        for variant in policies.iter().filter(same) {
            answers.extend(asking.validating(variant, request, asked.resource).unwrap_or_default());
            let Some(constraints) = variant
                .compiled
                .constraints()
                .filter(|_| *variant.compiled.mode() != Mode::Json)
            else {
                continue;
            };
            let delivered = asking.delivered(asking.policies.registration.validating(variant.number), request);
            let input = asking.input(delivered.as_deref().unwrap_or(request));
            let cell = input.request.cell();
            found.extend(constraints_select(constraints, |part: &MatchConstraints| {
                constraints::applies(part, &cell, &mut input.facts()).unwrap_or(true)
            }));
        }
        watch.answers(policy.kind, name, std::iter::once(""), &answers);
        watch.selected(policy.kind, name, &found);
    }
}

fn natives(asking: Asking<'_>, watch: &Watch<'_>, asked: &Asked<'_>, request: &Request) {
    let natives = &asking.policies.native;
    if !natives.names().any(|name| watch.is_asked(name, asked)) {
        return;
    }
    // The API server asks all of its policies at once: those that no row asks about are seen, too.
    for (name, answers) in natives.answers(asking.suite, asked.resource, request, asking.surroundings, asking.host) {
        if watch.is_asked(name, asked) {
            watch.answers(native::KIND, name, std::iter::once(""), &answers);
        }
    }
    for policy in natives
        .policies
        .iter()
        .filter(|policy| watch.is_asked(policy.name(), asked))
    {
        let Some(constraints) = policy.constraints() else {
            continue;
        };
        let input = asking.input(request);
        let cell = request.cell();
        let discovery = &asking.surroundings.cluster.discovery;
        let equivalents: Vec<_> = discovery.equivalents(&request.resource).map(|found| &**found).collect();
        let found = constraints_select(constraints, |part| {
            matches!(
                matches(part, &cell, &equivalents, &mut input.facts()),
                Ok(Match::Yes(_)) | Err(_)
            )
        });
        watch.selected(native::KIND, policy.name(), &found);
    }
}

fn payloads(asking: Asking<'_>, watch: &Watch<'_>) {
    for payload in &asking.suite.json_payloads {
        let key = Key {
            name: payload.path.value.clone(),
            ..Key::default()
        };
        for policy in &asking.policies.validating {
            let compiled = &policy.compiled;
            if *compiled.mode() == Mode::Json && watch.is_asked_about_payload(compiled.name(), &key) {
                let answer = compiled.decide_payload(payload.document.root(), asking.host);
                watch.answers(policy.kind, compiled.name(), std::iter::once(""), &[answer]);
            }
        }
    }
}
