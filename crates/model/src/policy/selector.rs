//! Label selectors in policies: as written, and compiled for matching.

use super::{
    decode::Decoder,
    located::{Spanned, Text},
    parts,
};
use crate::kube::{Expression, LabelSelector};
use kyvtest_go_compat::yaml::Node;

impl parts::LabelSelector {
    /// The selector to match with, which knows about keys, values and operators that Kubernetes rejects.
    pub fn compile(self) -> LabelSelector {
        let values = |texts: Vec<Text>| texts.into_iter().map(|text| text.value).collect();
        LabelSelector::new(
            self.match_labels
                .into_iter()
                .map(|(key, value)| (key.value, value.value)),
            self.match_expressions.into_iter().map(|requirement| Expression {
                key: requirement.key.value,
                operator: requirement.operator.value,
                values: values(requirement.values),
            }),
        )
    }
}

/// Reads a label selector.
pub(super) fn decode_selector<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Spanned<LabelSelector>> {
    let selector = parts::LabelSelector::decode(decoder, node)?;
    let span = selector.span;
    Some(Spanned::new(selector.compile(), span))
}
