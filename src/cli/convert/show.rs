//! A conversion as JSON, as a human-readable report, and as diagnostics.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{Head, Row};
use crate::cli::color::{HEADING, LITERAL};
use kyvtest_convert::{Action, Item, Outcome, Refusal, RefusalCode, hazard::Direction};
use kyvtest_go_compat::diagnostic::{Code, Diagnostic, Severity, Sources, render};

impl Head {
    /// The policy as JSON.
    pub(super) fn json(&self, sources: &Sources) -> Value {
        let Self {
            api_version,
            kind,
            namespace,
            name,
            origin,
        } = self;
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "file": sources.name(origin.file),
            "doc": origin.document,
        })
    }
}

/// The conversion as JSON. Every key is always present.
pub(super) fn json(row: &Row, sources: &Sources) -> Value {
    let policy = row.head.json(sources);
    let report: Vec<Value> = row
        .conversion
        .report
        .iter()
        .map(|item| item_json(item, sources))
        .collect();
    match &row.conversion.outcome {
        Outcome::Generated(generated) => {
            let bindings = generated.bindings.iter();
            let bindings: Vec<Value> = bindings.map(|binding| binding.document.root().to_serde()).collect();
            json!({
                "policy": policy,
                "outcome": "generated",
                "code": null,
                "message": null,
                "vap": generated.vap.document.root().to_serde(),
                "bindings": bindings,
                "report": report,
            })
        }
        Outcome::Mutating(generated) => json!({
            "policy": policy,
            "outcome": "generated",
            "code": null,
            "message": null,
            "vap": generated.map.document.root().to_serde(),
            "bindings": [generated.binding.document.root().to_serde()],
            "report": report,
        }),
        Outcome::Refused(refusal) => json!({
            "policy": policy,
            "outcome": "refused",
            "code": refusal.code.as_str(),
            "message": refusal.message,
            "vap": null,
            "bindings": [],
            "report": report,
        }),
    }
}

fn item_json(item: &Item, sources: &Sources) -> Value {
    let position = item.span.and_then(|span| sources.position(span.file, span.start));
    json!({
        "code": item.code,
        "hazard": item.hazard.map(|hazard| hazard.code),
        "action": item.action.as_str(),
        "path": item.path,
        "line": position.map(|position| position.line),
        "column": position.map(|position| position.column),
        "text": item.text,
    })
}

/// The kind and name of the policy.
pub(super) fn title(head: &Head) -> String {
    let namespace = head
        .namespace
        .as_ref()
        .map(|namespace| format!("{namespace}/"))
        .unwrap_or_default();
    format!("{} `{namespace}{}`", head.kind, head.name)
}

/// The human-readable report, with styles; ends with a newline.
pub(super) fn explanation(row: &Row, sources: &Sources) -> String {
    let mut text = String::new();
    let title = title(&row.head);
    match &row.conversion.outcome {
        Outcome::Refused(refusal) => {
            let _ = writeln!(
                text,
                "{HEADING}{title}: not converted ({}){HEADING:#}\n",
                refusal.code.as_str()
            );
            let diagnostic = refusal_diagnostic(&row.head, refusal);
            text.push_str(&render::full(&diagnostic, sources, true));
        }
        Outcome::Mutating(generated) => {
            let name = &generated.map.model.metadata.name.value;
            let _ = writeln!(text, "{HEADING}{title}: MutatingAdmissionPolicy `{name}`{HEADING:#}\n");
            push_report(&mut text, row, sources);
        }
        Outcome::Generated(generated) => {
            let name = &generated.vap.model.metadata.name.value;
            let _ = writeln!(
                text,
                "{HEADING}{title}: ValidatingAdmissionPolicy `{name}`{HEADING:#}\n"
            );
            push_report(&mut text, row, sources);
            if generated.audit_warnings {
                let _ = writeln!(text, "\n  note: audit-warnings: {}", kyvtest_convert::AUDIT_WARNINGS);
            }
        }
    }
    text
}

/// The conversion of each part of a policy: plain entries first, then hazards.
fn push_report(text: &mut String, row: &Row, sources: &Sources) {
    let (plain, marked): (Vec<&Item>, Vec<&Item>) =
        row.conversion.report.iter().partition(|item| item.hazard.is_none());
    for item in &plain {
        let action = item.action.as_str();
        let _ = writeln!(text, "  {LITERAL}{action}{LITERAL:#}  {}: {}", item.path, item.text);
    }
    if marked.is_empty() {
        let _ = writeln!(text, "\n  no difference is known from the policy alone");
    }
    for item in marked {
        let _ = write!(text, "\n{}", render::full(&diagnostic(item), sources, true));
    }
}

/// An entry of the report as a diagnostic.
fn diagnostic(item: &Item) -> Diagnostic {
    let direction = item.hazard.map(|hazard| hazard.direction);
    let code = match (item.action, direction) {
        (_, Some(Direction::NotInstallable)) => Code::NativeInvalid,
        (Action::Mapped, _) => Code::ConversionMaps,
        (Action::Dropped, _) => Code::ConversionDrops,
        (Action::Widened, _) => Code::ConversionWidens,
        (Action::Narrowed, _) => Code::ConversionNarrows,
    };
    let action = item.action.as_str();
    let message = match item.hazard {
        Some(hazard) => format!("{action}: {} ({})", hazard.title, hazard.code),
        None => format!("{action}: {}", item.path),
    };
    let mut diagnostic = Diagnostic::new(code, message);
    if matches!(direction, Some(Direction::Text | Direction::Offline | Direction::Equal)) {
        diagnostic = diagnostic.with_severity(Severity::Note);
    }
    diagnostic.primary = item.span;
    if let Some(span) = item.span {
        diagnostic = diagnostic.with_label(span, item.text.clone());
    }
    if let Some(hazard) = item.hazard {
        diagnostic = diagnostic
            .with_note(format!("{}: {}", hazard.direction.meaning(), hazard.explanation))
            .with_help(hazard.advice);
    }
    diagnostic
}

/// A refusal as a diagnostic; `None` if it was reported elsewhere.
pub(super) fn refusal(head: &Head, refusal: &Refusal) -> Option<Diagnostic> {
    (refusal.code != RefusalCode::InvalidPolicy).then(|| refusal_diagnostic(head, refusal))
}

fn refusal_diagnostic(head: &Head, refusal: &Refusal) -> Diagnostic {
    let message = format!("{} is not converted: {}", title(head), refusal.code.as_str());
    let mut diagnostic = Diagnostic::new(Code::NotConverted, message);
    diagnostic.primary = refusal.span;
    diagnostic = match &refusal.message {
        Some(message) => diagnostic.with_note(format!("Kyverno's message: {message}")),
        None if refusal.code == RefusalCode::UnsupportedKind => diagnostic,
        None => diagnostic.with_note("Kyverno does not report this"),
    };
    if let Some(hazard) = refusal.code.hazard() {
        diagnostic = diagnostic.with_note(format!("{}: {}", hazard.code, hazard.explanation));
    }
    diagnostic.with_help(refusal.help.as_str())
}

/// One warning for all hazards of a policy; `None` if there are none.
pub(super) fn summary(row: &Row) -> Option<Diagnostic> {
    let mut codes: Vec<&str> = Vec::new();
    let mut worst: Option<Direction> = None;
    for hazard in row.conversion.report.iter().filter_map(|item| item.hazard) {
        if matches!(
            hazard.direction,
            Direction::Text | Direction::Offline | Direction::Equal
        ) {
            continue;
        }
        if !codes.contains(&hazard.code) {
            codes.push(hazard.code);
        }
        worst = Some(worst.map_or(hazard.direction, |worst| worst.min(hazard.direction)));
    }
    let worst = match worst? {
        Direction::NotInstallable => "the API server would reject it",
        direction => direction.meaning(),
    };
    let message = format!(
        "the native policy generated from {} differs: {worst} ({})",
        title(&row.head),
        codes.join(", ")
    );
    let diagnostic = Diagnostic::new(Code::ConversionDiffers, message);
    Some(diagnostic.with_help("`--explain` shows the locations and suggests replacements"))
}
