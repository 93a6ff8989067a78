//! The smallest request around a difference: parts of its objects are taken away, outermost first, then scalars become plain,
//! as long as both sides still differ in the same way on the object that the API server makes of the rest.

use kyvtest_go_compat::value::{Document, Value};
use serde_json::{Value as Json, json};

use super::{
    super::{Counterexample, Data, Match},
    path::{FieldPath, below},
};
use crate::witness::Scenario;

/// How often both sides may be evaluated.
const RUNS: usize = 800;

/// Which objects of a request change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Both, if they are the same.
    PerSide,
    New,
    Old,
}

impl Which {
    /// The objects of a request that can change independently.
    pub(super) fn of(scenario: &Scenario) -> &'static [Self] {
        let request = &scenario.request;
        let (new, old) = (json_of(request.object.root()), json_of(request.old_object.root()));
        match (new.is_null(), old.is_null()) {
            (true, true) => &[],
            (false, true) => &[Self::New],
            (true, false) => &[Self::Old],
            (false, false) if new == old => &[Self::PerSide],
            (false, false) => &[Self::New, Self::Old],
        }
    }

    pub(super) fn object(self, scenario: &Scenario) -> Json {
        let request = &scenario.request;
        json_of(match self {
            Self::Old => request.old_object.root(),
            Self::New | Self::PerSide => request.object.root(),
        })
    }

    pub(super) fn replace(self, scenario: &mut Scenario, object: &Json) {
        let document = Document::from(object);
        if self != Self::New {
            scenario.request.old_object = document.clone();
        }
        if self != Self::Old {
            scenario.request.object = document;
        }
    }

    /// The name of the object in expressions.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Old => "oldObject",
            Self::New | Self::PerSide => "object",
        }
    }
}

fn json_of(value: Value<'_>) -> Json {
    if value.is_null() { Json::Null } else { value.to_serde() }
}

/// A request as it is sent, and what both sides make of it.
#[derive(Debug, Clone)]
pub(in crate::body) struct Shown {
    pub(in crate::body) sent: Scenario,
    pub(in crate::body) found: Counterexample,
}

impl Match<'_> {
    /// What both sides make of a request, as the world shows it to them.
    pub(super) fn show(&mut self, sent: &Scenario) -> Option<Counterexample> {
        if self.options.data == Data::Raw {
            return self.replay(sent.clone());
        }
        self.replay_admitted(sent)
    }

    /// The smallest request that shows a difference of the same class, in a cluster with as few objects as possible.
    pub(in crate::body) fn smallest(&mut self, found: Counterexample) -> Shown {
        let class = found.class();
        let sent = found.scenario().clone();
        // What the server rejects when it gets it once more stays as it is.
        let mut best = match self.show(&sent) {
            Some(again) if again.class() == class => Shown { sent, found: again },
            _ => return Shown { sent, found },
        };
        for number in (0..best.sent.world.params.len()).rev() {
            let mut sent = best.sent.clone();
            sent.world.params.remove(number);
            if let Some(found) = self.show(&sent).filter(|found| found.class() == class) {
                best = Shown { sent, found };
            }
        }
        let mut runs = 0;
        for step in [remove, simplify] {
            let mut changed = true;
            while changed {
                changed = false;
                for which in Which::of(&best.sent) {
                    let mut paths = below(&which.object(&best.sent), &FieldPath::default());
                    paths.retain(|path| !is_identity(path));
                    paths.sort_by_key(FieldPath::depth);
                    for path in paths {
                        if runs >= RUNS {
                            return best;
                        }
                        let mut object = which.object(&best.sent);
                        if !step(&mut object, &path) {
                            continue;
                        }
                        runs += 1;
                        let mut sent = best.sent.clone();
                        which.replace(&mut sent, &object);
                        if let Some(found) = self.show(&sent).filter(|found| found.class() == class) {
                            best = Shown { sent, found };
                            changed = true;
                        }
                    }
                }
            }
        }
        best
    }
}

/// Whether a path is part of what names an object.
pub(super) fn is_identity(path: &FieldPath) -> bool {
    let text = path.to_string();
    matches!(
        text.as_str(),
        "apiVersion" | "kind" | "metadata" | "metadata.name" | "metadata.namespace"
    )
}

fn remove(value: &mut Json, path: &FieldPath) -> bool {
    path.remove(value)
}

/// Makes a scalar plain; `false` if it is.
fn simplify(value: &mut Json, path: &FieldPath) -> bool {
    let Some(found) = path.get_mut(value) else {
        return false;
    };
    let plain = match found {
        Json::String(text) if text != "x" && !text.is_empty() => json!("x"),
        Json::Number(number) if !matches!(number.as_i64(), Some(0 | 1)) => json!(1),
        Json::Bool(true) => json!(false),
        _ => return false,
    };
    *found = plain;
    true
}
