//! `kyvtest convert --repair`: native policies that are proven equivalent, or the reasons why there are none.

use kyvtest_model::policy::Policy;
use std::{fmt::Write as _, io::Write as _};

use serde_json::{Value as Json, json};

use super::{Format, Head, show::title};
use crate::cli::{
    Exit, Failure,
    color::{HEADING, LITERAL},
    output::Output,
    prove::{region_json, witness},
};
use kyvtest_convert::Exceptions;
use kyvtest_go_compat::{
    diagnostic::{Code, Diagnostic, Sources},
    value::Document,
    yaml::emit::Emitter,
};
use kyvtest_model::kube::Discovery;
use kyvtest_prove::{
    Options,
    repair::{Refused, Repair, Repaired, repair},
};

/// Repairs policies and prints the results.
pub(super) fn run(
    policies: Vec<(Head, Policy)>,
    exceptions: Exceptions<'_>,
    discovery: &Discovery,
    options: &Options<'_>,
    (format, explain): (Format, bool),
    (sources, output): (&Sources, &mut Output),
) -> Result<Exit, Failure> {
    let rows: Vec<(Head, Repair)> = policies
        .into_iter()
        .map(|(head, original)| (head, repair(&original, exceptions, discovery, options)))
        .collect();
    match (format, explain) {
        (Format::Json, _) => {
            let list: Vec<Json> = rows.iter().map(|(head, repair)| row(head, repair, sources)).collect();
            let text = format!("{:#}\n", Json::Array(list));
            output.artefact().write_all(text.as_bytes())?;
        }
        (Format::Yaml, true) => {
            for (i, (head, repair)) in rows.iter().enumerate() {
                let gap = if i > 0 { "\n" } else { "" };
                output.styled(&format!("{gap}{}", explanation(head, repair)))?;
            }
        }
        (Format::Yaml, false) => {
            let mut emitter = Emitter::new();
            for repaired in rows.iter().filter_map(|(_, repair)| done(repair)) {
                for document in documents(repaired) {
                    emitter.document();
                    document.root().emit(&mut emitter);
                }
            }
            output.artefact().write_all(emitter.finish().as_bytes())?;
            for (head, repair) in &rows {
                output.diagnostic(&diagnostic(head, repair), sources);
            }
        }
    }
    let refused = rows.iter().any(|(_, repair)| done(repair).is_none());
    Ok(if refused { Exit::Mismatch } else { Exit::Success })
}

fn done(repair: &Repair) -> Option<&Repaired> {
    match repair {
        Repair::Done(repaired) => Some(repaired),
        Repair::Refused(_) => None,
    }
}

/// The objects: each policy, then its bindings.
pub(in crate::cli) fn documents(repaired: &Repaired) -> Vec<&Document> {
    let mut all = Vec::new();
    for policy in &repaired.policies {
        all.push(&policy.document);
        let name = &policy.model.metadata.name.value;
        let own = repaired
            .bindings
            .iter()
            .filter(|binding| binding.model.policy_name.value == *name);
        all.extend(own.map(|binding| &binding.document));
    }
    all.extend(repaired.mutating.iter().flat_map(|one| [&one.policy.0, &one.binding.0]));
    all
}

fn row(head: &Head, repair: &Repair, sources: &Sources) -> Json {
    let policy = head.json(sources);
    match repair {
        Repair::Done(repaired) => {
            let Repaired {
                policies,
                bindings,
                mutating,
                steps,
                remarks,
                proof,
            } = &**repaired;
            let vaps: Vec<Json> = policies
                .iter()
                .map(|policy| policy.document.root().to_serde())
                .collect();
            let maps: Vec<Json> = mutating.iter().map(|one| one.policy.0.root().to_serde()).collect();
            let bindings: Vec<Json> = bindings
                .iter()
                .map(|binding| &binding.document)
                .chain(mutating.iter().map(|one| &one.binding.0))
                .map(|document| document.root().to_serde())
                .collect();
            let steps: Vec<Json> = steps
                .iter()
                .map(|step| json!({"construct": step.construct, "hazards": step.hazards, "text": step.text}))
                .collect();
            json!({
                "policy": policy,
                "outcome": "repaired",
                "code": null,
                "message": null,
                "vaps": vaps,
                "maps": maps,
                "bindings": bindings,
                "steps": steps,
                "remarks": remarks,
                "label": proof.label.as_str(),
                "world": proof.world.to_string(),
                "witness": null,
            })
        }
        Repair::Refused(refused) => {
            let Refused { code, reason, witness } = &**refused;
            json!({
                "policy": policy,
                "outcome": "refused",
                "code": code,
                "message": reason,
                "vaps": [],
                "maps": [],
                "bindings": [],
                "steps": [],
                "remarks": [],
                "label": null,
                "world": null,
                "witness": witness.as_deref().map(region_json),
            })
        }
    }
}

fn explanation(head: &Head, repair: &Repair) -> String {
    let title = title(head);
    let mut text = String::new();
    match repair {
        Repair::Done(repaired) => {
            let names: Vec<String> = repaired.names().iter().map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            let kind = repaired.kind();
            let _ = writeln!(text, "{HEADING}{title}: repaired as {kind} {names}{HEADING:#}\n");
            for step in &repaired.steps {
                let hazards = if step.hazards.is_empty() {
                    String::new()
                } else {
                    format!(" [{}]", step.hazards.join(", "))
                };
                let _ = writeln!(text, "  {LITERAL}{}{LITERAL:#}{hazards}  {}", step.construct, step.text);
            }
            if !repaired.steps.is_empty() {
                text.push('\n');
            }
            let proof = &repaired.proof;
            let _ = writeln!(text, "  {}  world: {}", proof.label.as_str(), proof.world);
            for remark in &repaired.remarks {
                let _ = writeln!(text, "  {remark}");
            }
        }
        Repair::Refused(refused) => {
            let _ = writeln!(text, "{HEADING}{title}: not repaired ({}){HEADING:#}\n", refused.code);
            let _ = writeln!(text, "  {}", refused.reason);
            if let Some(region) = &refused.witness {
                text.push_str(&witness(region));
            }
        }
    }
    text
}

fn diagnostic(head: &Head, repair: &Repair) -> Diagnostic {
    let title = title(head);
    match repair {
        Repair::Done(repaired) => {
            let count = repaired.names().len();
            let plural = if count == 1 { "policy" } else { "policies" };
            let message = format!("{title} is repaired: {count} equivalent native {plural}, PROVEN");
            let mut diagnostic =
                Diagnostic::new(Code::Repaired, message).with_note(format!("world: {}", repaired.proof.world));
            for remark in &repaired.remarks {
                diagnostic = diagnostic.with_note(remark.clone());
            }
            diagnostic
        }
        Repair::Refused(refused) => {
            let message = format!("{title} is not repaired: {}", refused.code);
            let mut diagnostic = Diagnostic::new(Code::NotRepaired, message).with_note(refused.reason.clone());
            diagnostic.primary = Some(head.origin.span);
            if refused.witness.is_some() {
                diagnostic = diagnostic.with_help("`--explain` shows a request on which the two differ");
            }
            diagnostic
        }
    }
}
