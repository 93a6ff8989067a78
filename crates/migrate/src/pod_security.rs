//! `validate.podSecurity` in CEL, one condition per control.

use kyvtest_model::policy::Subtree;

use crate::{Expr, Refusal, RefusalCode, Subject, names::Names};

pub(crate) fn translate(_security: &Subtree, _subject: &Subject, _names: &mut Names<'_>) -> Result<Expr, Refusal> {
    Err(Refusal::new(RefusalCode::PodSecurity, "Pod Security Standards"))
}
