//! What became of the parts of a policy.

use super::{
    hazard::{self, Hazard},
    place::At,
};
use kyvtest_go_compat::diagnostic::Span;

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is in the native policy.
    Mapped,
    /// It is not in the native policy.
    Dropped,
    /// The native policy judges requests that the Kyverno policy leaves alone.
    Widened,
    /// The native policy leaves requests alone that the Kyverno policy judges.
    Narrowed,
}

impl Action {
    /// The word that tools see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Dropped => "dropped",
            Self::Widened => "widened",
            Self::Narrowed => "narrowed",
        }
    }
}

/// One entry of the report on a conversion.
#[derive(Debug, Clone)]
pub struct Item {
    /// A stable code: that of the refusal, the hazard's name, or what was mapped.
    pub code: &'static str,
    /// The hazard, where the two engines may decide differently because of it.
    pub hazard: Option<&'static Hazard>,
    /// What became of the part.
    pub action: Action,
    /// The part: `spec.rules[0].match`, after the exception's name where it is in one.
    pub path: String,
    pub span: Option<Span>,
    /// What happened, in one line.
    pub text: String,
}

/// The report in the making.
pub(super) trait Report {
    /// Notes what a part was mapped to.
    fn mapped(&mut self, code: &'static str, at: &At<'_>, text: impl Into<String>);

    /// Notes a hazard.
    fn hazard(&mut self, code: &'static str, action: Action, at: &At<'_>, text: impl Into<String>);

    /// Notes a hazard at another place than that of the part itself.
    fn hazard_at(&mut self, code: &'static str, action: Action, at: &At<'_>, span: Span, text: impl Into<String>);
}

impl Report for Vec<Item> {
    fn mapped(&mut self, code: &'static str, at: &At<'_>, text: impl Into<String>) {
        self.push(Item {
            code,
            hazard: None,
            action: Action::Mapped,
            path: at.path(),
            span: Some(at.span()),
            text: text.into(),
        });
    }

    fn hazard(&mut self, code: &'static str, action: Action, at: &At<'_>, text: impl Into<String>) {
        self.hazard_at(code, action, at, at.span(), text);
    }

    fn hazard_at(&mut self, code: &'static str, action: Action, at: &At<'_>, span: Span, text: impl Into<String>) {
        let hazard = hazard::find(code);
        self.push(Item {
            code: hazard.map_or(code, |hazard| hazard.name),
            hazard,
            action,
            path: at.path(),
            span: Some(span),
            text: text.into(),
        });
    }
}
