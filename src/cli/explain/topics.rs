//! The topics of `kyvtest explain` besides diagnostic codes: conversion hazards, divergence classes, proof labels.

use std::fmt::Write as _;

use kyvtest_convert::hazard::{self, Hazard};
use kyvtest_model::verdict::DivergenceClass;

/// A term of reports that is not a diagnostic code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Topic {
    /// The term, as reports print it.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    text: &'static str,
}

/// The labels of proofs, the strongest first.
pub(super) const LABELS: &[Topic] = &[
    Topic {
        name: "PROVEN",
        title: "every request has the same effect on both sides",
        text: "The proof covers every request that can occur in the world that is printed with the label. It does \
               not cover messages or the cost of expressions.",
    },
    Topic {
        name: "BOUNDED",
        title: "every request with short lists has the same effect on both sides",
        text: "The proof covers every request whose lists, as far as both sides go through them, have at most k \
               elements. Requests with longer lists were only tested.",
    },
    Topic {
        name: "PROVEN-MATCH",
        title: "both sides apply to the same requests",
        text: "Matching is proven to be equal. The expressions differ and were compared on the given number of \
               requests without finding a difference.",
    },
    Topic {
        name: "TESTED",
        title: "no difference on the tested requests",
        text: "Nothing was proven. Both engines decided the given number of requests in the same way.",
    },
    Topic {
        name: "REFUTED",
        title: "a request on which the two sides differ",
        text: "The report shows the request. It was replayed through both engines before it was printed. `kyvtest \
               convert --repair` prints a native policy that is proven equivalent, if there is one; `kyvtest prove \
               --emit-cases DIR` writes the request as a suite.",
    },
    Topic {
        name: "NOT-CONVERTIBLE",
        title: "Kyverno generates no native policy from this one",
        text: "The code after the label gives the reason. `kyvtest convert --explain` shows the location. There is \
            nothing to compare.",
    },
    Topic {
        name: "UNKNOWN",
        title: "neither proven nor refuted",
        text: "The line `why` names the part that could not be decided. Give kyvtest resources to try with \
               `--resources`, raise the limit with `--budget`, or simplify the condition that the line names.",
    },
];

/// The title and text of a class.
fn class(class: DivergenceClass) -> (&'static str, &'static str) {
    match class {
        DivergenceClass::NotConvertible => (
            "there is no native policy to compare with",
            "Kyverno does not generate one, or the API server rejects it. The code gives the reason. This class \
                never fails a run.",
        ),
        DivergenceClass::Weaker => (
            "the native policy admits what Kyverno denies or reports",
            "After a migration, requests that were denied before are admitted. This class fails a run (exit code 3).",
        ),
        DivergenceClass::Stricter => (
            "the native policy denies or reports what Kyverno admits",
            "After a migration, requests that were admitted before are denied. This class fails a run (exit code 3).",
        ),
        DivergenceClass::Action => (
            "both sides report a violation, with different effects",
            "For example, Kyverno denies the request and the native policy only audits it. This class fails a run \
                (exit code 3).",
        ),
        DivergenceClass::Changed => (
            "both sides admit the request and change the object differently",
            "After a migration, other objects are stored than before. The cause says whether one side leaves the object \
                alone. This class fails a run (exit code 3).",
        ),
        DivergenceClass::Error => (
            "the same effect, but one side failed to evaluate its expressions",
            "The failure policy hides the error; another failure policy or object makes it visible. This class \
                fails a run (exit code 3).",
        ),
        DivergenceClass::Scope => (
            "the same effect, but only one side evaluated the request",
            "The two sides match different requests. This class fails a run (exit code 3).",
        ),
        DivergenceClass::Message => (
            "the same effect with a different message",
            "The client sees different messages. This class never fails a run.",
        ),
    }
}

/// Every term with its title, by heading.
pub(super) fn all() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let hazards = hazard::all().map(|hazard| (hazard.code, hazard.title)).collect();
    let classes = DivergenceClass::ALL.into_iter();
    let classes = classes.map(|one| (one.as_str(), class(one).0)).collect();
    let labels = LABELS.iter().map(|label| (label.name, label.title)).collect();
    vec![
        ("conversion hazards", hazards),
        ("divergence classes", classes),
        ("proof labels", labels),
    ]
}

/// The explanation of a term in Markdown; ignores case.
pub(super) fn explain(word: &str) -> Option<String> {
    let same = |name: &str| name.eq_ignore_ascii_case(word);
    let found = hazard::all().find(|hazard| same(hazard.code) || same(hazard.name));
    if let Some(found) = found {
        return Some(of_hazard(found));
    }
    let found = DivergenceClass::ALL.into_iter().find(|class| same(class.as_str()));
    if let Some(found) = found {
        let (title, text) = class(found);
        return Some(format!("# {found}: {title}\n\n{text}\n{NEXT}"));
    }
    let label = LABELS.iter().find(|label| same(label.name))?;
    Some(format!("# {}: {}\n\n{}\n", label.name, label.title, label.text))
}

/// The advice about a divergence.
const NEXT: &str = "
## What to do

- Run the case again with `-v`: the report prints the command. The trace shows \
    which expressions decided.
- `kyvtest convert --repair` prints a native policy that is proven equivalent, if \
    there is one.
- To accept the difference, add `divergence` with a reason and a date to the case in \
    `kyvtest.yaml`, see docs/sidecar.md.
";

fn of_hazard(hazard: &Hazard) -> String {
    let mut text = format!("# {}: {}\n\n", hazard.code, hazard.title);
    let _ = writeln!(text, "{}.\n", capital(hazard.explanation));
    let _ = writeln!(
        text,
        "Name: `{}`. Effect: {}.\n",
        hazard.name,
        hazard.direction.meaning()
    );
    let _ = writeln!(text, "## What to do\n\n- {}.", capital(hazard.advice));
    text.push_str("- `kyvtest convert --repair` prints a native policy that is proven equivalent, if there is one.\n");
    text
}

/// Capitalises a sentence.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
