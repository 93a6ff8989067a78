//! The results of `kyvtest prove`, human-readable and as Markdown.

use std::fmt::Write as _;

use super::{Row, fix_text};
use crate::cli::color::{HEADING, LITERAL};
use kyvtest_prove::{Label, Region};

/// The text after the name of a label.
pub(super) fn suffix(label: &Label) -> String {
    match label {
        Label::Refuted(kind) => format!("  kind={}", kind.as_str()),
        Label::NotConvertible { code } => format!("  {code}"),
        Label::ProvenMatch { tested } | Label::Tested { tested } => format!("  requests={tested}"),
        Label::Bounded { k } => format!("  k={k}"),
        Label::Proven | Label::Unknown => String::new(),
    }
}

pub(super) fn human(row: &Row, explain: bool) -> String {
    let proof = &row.proof;
    let mut text = String::new();
    let label = proof.label.as_str();
    let _ = writeln!(
        text,
        "{HEADING}{label}{HEADING:#}  {LITERAL}{}{LITERAL:#}{}",
        row.original.name(),
        suffix(&proof.label)
    );
    let _ = writeln!(text, "  world: {}", proof.world);
    if proof.fault {
        let _ = writeln!(text, "  internal error, please report it: {}", proof.reason);
    } else if !proof.reason.is_empty() {
        let _ = writeln!(text, "  why: {}", proof.reason);
    }
    for region in &proof.regions {
        let hazard = region
            .hazard
            .as_ref()
            .map(|code| format!(" [{code}]"))
            .unwrap_or_default();
        let direction = format!("the native policy is {}", region.class);
        let _ = match region.text.strip_prefix(&direction) {
            Some(rest) => writeln!(text, "  {direction}{hazard}{rest}"),
            None => writeln!(text, "  {}{hazard}: {}", region.class, region.text),
        };
        if !region.cause.is_empty() {
            let _ = writeln!(text, "    cause: {}", region.cause);
        }
    }
    for region in firsts(&proof.regions) {
        text.push_str(&witness(region));
    }
    if let Some(fix) = &row.fix {
        let _ = writeln!(text, "  fix (PROVEN): {}", fix_text(fix));
        let _ = writeln!(text, "    `kyvtest convert --repair` prints it");
    }
    for note in &proof.notes {
        let _ = writeln!(text, "  note: {note}");
    }
    let stats = &proof.stats;
    if stats.paths > 0 && explain {
        let counted = |number: u64, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
        let _ = writeln!(
            text,
            "  checked {} and {}, replayed {}",
            counted(stats.cells, "request class", "request classes"),
            counted(stats.paths, "path", "paths"),
            counted(stats.requests, "request", "requests"),
        );
    }
    text
}

/// The first region of each class: one request for each direction.
fn firsts(regions: &[Region]) -> impl Iterator<Item = &Region> {
    regions.iter().enumerate().filter_map(|(at, region)| {
        let before = regions.get(..at).unwrap_or_default();
        before.iter().all(|other| other.class != region.class).then_some(region)
    })
}

/// The request of a region, and both verdicts on it.
pub(in crate::cli) fn witness(region: &Region) -> String {
    let scenario = region.witness.scenario();
    let request = &scenario.request;
    let (kyverno, native) = (region.witness.kyverno(), region.witness.native());
    let mut text = String::new();
    let mode = if request.collection {
        " (of a collection delete)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "  request: {}{mode} {} by user {} in groups [{}]",
        request.operation.as_str(),
        request.resource.name(),
        request.user.username,
        request.user.groups().join(", ")
    );
    let _ = writeln!(
        text,
        "    Kyverno: {} ({}), native policy: {} ({})",
        kyverno.effect, kyverno.status, native.effect, native.status
    );
    if let Some(reason) = region.witness.raw_reason() {
        let _ = writeln!(text, "    data=raw: {}", reason.replace('\n', " "));
    }
    let params = scenario.world.params.iter().map(|document| ("parameter", document));
    for (name, document) in [("object", &request.object), ("oldObject", &request.old_object)]
        .into_iter()
        .chain(params)
    {
        if document.root().is_null() {
            continue;
        }
        let _ = writeln!(text, "    {name}:");
        for line in document.root().to_yaml().lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    let labels: Vec<String> = scenario
        .namespace_labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    if !labels.is_empty() {
        let _ = writeln!(text, "    namespace labels: {}", labels.join(", "));
    }
    text
}

pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = String::from("| policy | label | why |\n|---|---|---|\n");
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    for row in rows {
        let proof = &row.proof;
        let first = proof.regions.first().map(|region| region.text.as_str());
        let why = first.unwrap_or(&proof.reason);
        let label = format!("{}{}", proof.label.as_str(), suffix(&proof.label));
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            cell(row.original.name()),
            cell(&label),
            cell(why)
        );
    }
    for row in rows {
        let _ = writeln!(text, "\n{}: world `{}`", cell(row.original.name()), row.proof.world);
        for region in firsts(&row.proof.regions) {
            let _ = write!(text, "\n```\n{}```\n", witness(region));
        }
    }
    text
}
