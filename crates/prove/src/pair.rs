//! Compares a Kyverno policy with its native counterpart on one request.
//!
//! The counterpart is what Kyverno would generate, whether the policy requests it or not. If Kyverno generates nothing, or the
//! API server would reject it, there is none, and [`NotConvertible`] gives the reason. A ValidatingPolicy that does not request
//! a native policy, and is refused only because of autogen, is compared with autogen switched off on both sides; one that
//! requests it has no native policy in a cluster either.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use kyvtest_apiserver as vap;
use kyvtest_cel::time::Timestamp;
use kyvtest_convert::{
    self as convert, Conversion, Exceptions, Generated, Options, Outcome, RefusalCode,
    hazard::{Direction, Hazard},
};
use kyvtest_kyverno::{
    config::Config,
    controller::{Controller, Installed},
    lens::Lens,
};
use kyvtest_model::{
    compare::{self, CandidateCause, Divergence, Tendency},
    kube::{Discovery, Environment, Request},
    policy::Policy,
    verdict::{DivergenceClass, Verdict},
};

/// The same policy without policies for pod controllers.
fn without_autogen(policy: &Policy) -> Option<Policy> {
    let mut policy = (**policy.as_validating()?).clone();
    policy.spec.autogen.pod_controllers = Some(Vec::new());
    Some(Policy::Validating(Arc::new(policy)))
}

/// A note on the comparison of a policy with its native counterpart as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Note {
    /// The policy does not request a native policy.
    NotMarked,
    /// The two are compared without policies for pod controllers.
    PodControllersOff,
    /// A generated `[Audit, Warn]` binding warns the client, which Kyverno does not.
    AuditWarnings,
}

impl Note {
    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotMarked => "not-marked",
            Self::PodControllersOff => "pod-controllers-off",
            Self::AuditWarnings => "audit-warnings",
        }
    }

    /// What it means.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotMarked => {
                "the policy does not request a native policy; it is compared with the one that Kyverno would \
                    generate"
            }
            Self::PodControllersOff => {
                "Kyverno generates no native policy from a policy that also covers pod controllers; both sides are \
                    compared without them"
            }
            Self::AuditWarnings => convert::AUDIT_WARNINGS,
        }
    }
}

/// Why there is no native policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotConvertible {
    /// The code of the refusal, or `VAP_INVALID`.
    pub code: &'static str,
    /// The message of Kyverno or the API server.
    pub text: String,
}

/// The code of a policy that is written for JSON payloads.
pub(crate) const JSON_MODE: &str = "json-mode";

/// The code of a native policy that the API server rejects.
pub(crate) const VAP_INVALID: &str = "vap-invalid";

/// A policy and its native counterpart.
#[derive(Debug)]
pub struct Pair {
    original: Policy,
    conversion: Conversion,
    native: Result<vap::Server, NotConvertible>,
    /// The policy as it is compared, if that is not the policy itself.
    compared: Option<Controller>,
}

/// The result of a native policy for a request.
#[derive(Debug, Clone)]
pub struct NativeVerdict {
    /// The verdict; the two sides' messages are compared by its text.
    pub verdict: Verdict,
    /// The API server's response.
    pub answer: vap::AdmissionResponse,
}

impl Pair {
    /// Converts a policy.
    pub fn new(original: Policy, exceptions: Exceptions<'_>, discovery: &Discovery, now: Option<Timestamp>) -> Self {
        let options = Options { force: true, now };
        let mut conversion = convert::convert(&original, exceptions, discovery, options);
        let mut compared = None;
        if let Outcome::Refused(refusal) = &conversion.outcome
            && refusal.code == RefusalCode::Autogen
            && !original.is_marked()
            && let Some(plain) = without_autogen(&original)
        {
            conversion = convert::convert(&plain, exceptions, discovery, options);
            let installed = Installed {
                policies: &[plain],
                cel_exceptions: exceptions.cel,
                ..Installed::default()
            };
            compared = Some(Controller::new(installed, Config::bare(), Lens::CLUSTER, discovery).0);
        }
        let native = server(&conversion);
        Self {
            original,
            conversion,
            native,
            compared,
        }
    }

    /// The Kyverno policy.
    pub fn original(&self) -> &Policy {
        &self.original
    }

    /// How the policy was converted.
    pub fn conversion(&self) -> &Conversion {
        &self.conversion
    }

    /// Why there is no native policy, if there is none.
    pub fn missing(&self) -> Option<&NotConvertible> {
        self.native.as_ref().err()
    }

    /// The names of the native policy and its first binding.
    pub fn names(&self) -> Option<(&str, &str)> {
        let server = self.native.as_ref().ok()?;
        Some((
            server.policies().first()?.name(),
            server.bindings().first().map_or("", vap::Binding::name),
        ))
    }

    /// The native counterpart of the policy, if the API server accepts it.
    pub fn generated(&self) -> Option<&Generated> {
        match (&self.native, &self.conversion.outcome) {
            (Ok(_), Outcome::Generated(generated)) => Some(generated),
            _ => None,
        }
    }

    /// Whether the two are compared without policies for pod controllers.
    pub fn without_autogen(&self) -> bool {
        self.compared.is_some()
    }

    /// What is to be known about the comparison as a whole.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if !self.original.is_marked() {
            notes.push(Note::NotMarked);
        }
        if self.without_autogen() {
            notes.push(Note::PodControllersOff);
        }
        if self.generated().is_some_and(|generated| generated.audit_warnings) {
            notes.push(Note::AuditWarnings);
        }
        notes
    }

    /// Reviews a request with the native policy.
    pub fn native(&self, request: &Request, environment: Environment<'_>) -> Option<NativeVerdict> {
        let server = self.native.as_ref().ok()?;
        Some(NativeVerdict::of(server.review(request, environment)))
    }

    /// Compares both verdicts on a request. `kyverno` is the combined verdict of all rules.
    pub fn compare(
        &self,
        kyverno: &Verdict,
        native: Option<&NativeVerdict>,
        request: &Request,
        environment: Environment<'_>,
    ) -> Option<Divergence> {
        let native = match (&self.native, native) {
            (Ok(_), Some(native)) => native,
            (Ok(_), None) => return None,
            (Err(missing), _) => {
                return Some(Divergence {
                    class: DivergenceClass::NotConvertible,
                    code: Some(missing.code.to_owned()),
                    cause: missing.text.clone(),
                });
            }
        };
        let plain;
        let kyverno = match &self.compared {
            None => kyverno,
            Some(controller) => {
                let review = controller.review(request, environment);
                plain = review.of_policy(&self.original.id(), true);
                &plain
            }
        };
        self.cause(kyverno, &native.verdict, request)
    }

    /// The difference of two verdicts on a request, with its first cause among the hazards of the conversion.
    pub fn cause(&self, kyverno: &Verdict, native: &Verdict, request: &Request) -> Option<Divergence> {
        // Most cases are equal and need no causes.
        compare::class(kyverno, native)?;
        let texts: Vec<(&Hazard, String, &str)> = self
            .conversion
            .report
            .iter()
            .filter_map(|item| {
                let hazard = item.hazard.filter(|hazard| hazard.concerns(request))?;
                let text = format!("{}; {}", hazard.title, hazard.advice);
                Some((hazard, text, item.path.as_str()))
            })
            .collect();
        let suspects: Vec<CandidateCause<'_>> = texts
            .iter()
            .filter_map(|(hazard, text, path)| {
                Some(CandidateCause {
                    code: hazard.code,
                    tendency: tendency(hazard.direction)?,
                    path,
                    text,
                })
            })
            .collect();
        compare::compare(kyverno, native, &suspects)
    }
}

fn tendency(direction: Direction) -> Option<Tendency> {
    match direction {
        Direction::Weaker => Some(Tendency::Weaker),
        Direction::Stricter => Some(Tendency::Stricter),
        Direction::Either => Some(Tendency::Either),
        Direction::Text => Some(Tendency::Text),
        Direction::NotInstallable | Direction::Offline | Direction::Equal => None,
    }
}

/// A server with what was generated, if anything was and the API server takes it.
fn server(conversion: &Conversion) -> Result<vap::Server, NotConvertible> {
    let generated = match &conversion.outcome {
        Outcome::Generated(generated) => generated,
        Outcome::Mutating(_) => {
            // INVARIANT: pairs are made of policies that validate.
            return Err(NotConvertible {
                code: "mutating-policy",
                text: "a MutatingPolicy has no validating counterpart".to_owned(),
            });
        }
        Outcome::Refused(refusal) => {
            return Err(NotConvertible {
                code: refusal.code.as_str(),
                text: refusal
                    .message
                    .clone()
                    .unwrap_or_else(|| refusal.code.advice().to_owned()),
            });
        }
    };
    let bindings = generated.bindings.iter().map(|binding| &binding.checked);
    let mut checked = std::iter::once(&generated.vap.checked).chain(bindings);
    if let Some(refused) = checked.find(|checked| !checked.errors.is_empty()) {
        return Err(NotConvertible {
            code: VAP_INVALID,
            text: refused.message.clone(),
        });
    }
    let bindings = generated.bindings.iter().map(|binding| &*binding.model);
    Ok(vap::Server::new(
        [&*generated.vap.model],
        bindings,
        vap::Lens::ApiServer,
    ))
}

impl NativeVerdict {
    /// A response with its combined verdict.
    pub fn of(answer: vap::AdmissionResponse) -> Self {
        let verdicts = answer.verdicts.iter().map(|said| said.verdict.clone()).collect();
        let mut verdict = Verdict::strongest(verdicts);
        verdict.status = answer.status;
        // The client reads the reason of a refusal, and every warning.
        if !answer.allowed && answer.reason != vap::INVALID {
            verdict.message = format!("{}: {}", answer.reason, verdict.message);
        } else if answer.allowed && answer.warnings.len() > 1 {
            verdict.message = answer.warnings.join("; ");
        }
        Self { verdict, answer }
    }
}
