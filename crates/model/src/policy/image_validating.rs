//! ImageValidatingPolicy and NamespacedImageValidatingPolicy of policies.kyverno.io.
//!
//! Upstream counterpart: `api/policies.kyverno.io/v1beta1` of github.com/kyverno/api (Kyverno 1.19); v1 and v1alpha1
//! have the same spec. Attestors and attestations are checked against the schema and kept as written.

use super::{
    classic_parts::registry_credentials,
    decode::{Decoder, Fields},
    located::{Expression, Spanned, Subtree, Text},
    match_constraints::MatchConstraints,
    parts::{
        AuditAnnotation, FAILURE_POLICIES, FailurePolicy, MatchCondition, VALIDATION_ACTIONS, Validation,
        ValidationAction, Variable, pod_controllers, timeout_seconds,
    },
    scoped::{PolicySpec, ScopedPolicy},
    validating::Evaluation,
};
use kyvtest_go_compat::yaml::Node;

/// An ImageValidatingPolicy or NamespacedImageValidatingPolicy.
pub type ImageValidatingPolicy = ScopedPolicy<ImageValidatingPolicySpec>;

#[derive(Debug, Clone)]
pub struct ImageValidatingPolicySpec {
    /// Without it, no requests match.
    pub match_constraints: Option<MatchConstraints>,
    pub match_conditions: Vec<MatchCondition>,
    /// The verified images; empty means all.
    pub match_image_references: Vec<ImageReference>,
    /// Paths of images in addition to the well-known ones.
    pub images: Vec<Variable>,
    pub variables: Vec<Variable>,
    pub attestors: Vec<Attestor>,
    /// The names of the attestations.
    pub attestations: Vec<Text>,
    pub validations: Vec<Validation>,
    pub audit_annotations: Vec<AuditAnnotation>,
    pub validation_actions: Option<Vec<Spanned<ValidationAction>>>,
    pub failure_policy: Option<Spanned<FailurePolicy>>,
    pub evaluation: Evaluation,
    pub configuration: ImageConfiguration,
    /// The pod controllers to generate rules for; `None` is all of them, an empty list none.
    pub pod_controllers: Option<Vec<Text>>,
    /// The spec as written; for a generated one, as it would be written.
    pub source: Subtree,
}

/// Selects images.
#[derive(Debug, Clone)]
pub enum ImageReference {
    /// A pattern of the reference.
    Glob(Text),
    /// A CEL expression on `ref`.
    Expression(Expression),
}

/// A trusted signer of images.
#[derive(Debug, Clone)]
pub struct Attestor {
    pub name: Text,
    /// `cosign` or `notary`, as written.
    pub body: Subtree,
    /// The expressions in it, each with its path below the attestor.
    pub expressions: Vec<(&'static str, Expression)>,
}

/// Requirements for images in addition to the validations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageConfiguration {
    /// Whether tags are replaced by digests.
    pub mutate_digest: bool,
    /// Whether every image must have a digest.
    pub verify_digest: bool,
    /// Whether every image must have been verified.
    pub required: bool,
}

impl Default for ImageConfiguration {
    fn default() -> Self {
        Self {
            mutate_digest: true,
            verify_digest: true,
            required: true,
        }
    }
}

impl PolicySpec for ImageValidatingPolicySpec {
    const KINDS: [&'static str; 2] = ["ImageValidatingPolicy", "NamespacedImageValidatingPolicy"];

    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let source = decoder.subtree(node)?;
        let mut fields = decoder.fields(node)?;
        let attestations = fields.list("attestations", attestation);
        let attestors = fields.required("attestors", |decoder, node| decoder.list(node, Attestor::decode));
        let audit_annotations = fields.list("auditAnnotations", AuditAnnotation::decode);
        let pod_controllers = fields.optional("autogen", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            let controllers = fields.optional("podControllers", pod_controllers);
            fields.finish();
            controllers
        });
        fields.optional("credentials", registry_credentials);
        let evaluation = fields.optional("evaluation", Evaluation::decode).unwrap_or_default();
        let failure_policy = fields.word("failurePolicy", &FAILURE_POLICIES);
        let images = fields.list("images", Variable::decode);
        let match_conditions = fields.list("matchConditions", MatchCondition::decode);
        let match_constraints = fields.optional("matchConstraints", MatchConstraints::decode);
        let match_image_references = fields.list("matchImageReferences", ImageReference::decode);
        let validation_actions = fields.optional("validationActions", |decoder, node| {
            decoder.list(node, |decoder, node| decoder.word(node, &VALIDATION_ACTIONS))
        });
        let configuration = fields.optional("validationConfigurations", ImageConfiguration::decode);
        let validations = fields.required("validations", |decoder, node| decoder.list(node, Validation::decode));
        let variables = fields.list("variables", Variable::decode);
        fields.optional("webhookConfiguration", timeout_seconds);
        fields.finish();
        Some(Self {
            match_constraints,
            match_conditions,
            match_image_references,
            images,
            variables,
            attestors: attestors?,
            attestations,
            validations: validations?,
            audit_annotations,
            validation_actions,
            failure_policy,
            evaluation,
            configuration: configuration.unwrap_or_default(),
            pod_controllers,
            source,
        })
    }
}

impl ImageReference {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        decoder.one_of(node, &["glob", "expression"]);
        let mut fields = decoder.fields(node)?;
        let glob = fields.string("glob");
        let expression = fields.optional("expression", Decoder::expression);
        fields.finish();
        glob.map(Self::Glob).or(expression.map(Self::Expression))
    }
}

impl ImageConfiguration {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        let mut fields = decoder.fields(node)?;
        let mut flag = |name: &'static str| fields.bool(name).is_none_or(|value| value.value);
        let configuration = Self {
            mutate_digest: flag("mutateDigest"),
            required: flag("required"),
            verify_digest: flag("verifyDigest"),
        };
        fields.finish();
        Some(configuration)
    }
}

fn attestation<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Text> {
    let mut fields = decoder.fields(node)?;
    for form in ["intoto", "referrer"] {
        fields.optional(form, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            fields.required_string("type");
            fields.finish();
            Some(())
        });
    }
    let name = fields.required_string("name");
    fields.finish();
    name
}

fn strings(fields: &mut Fields<'_, '_>, names: &[&'static str]) {
    for name in names {
        fields.string(name);
    }
}

impl Attestor {
    fn decode<'t>(decoder: &mut Decoder<'t>, node: Node<'t>) -> Option<Self> {
        decoder.one_of(node, &["cosign", "notary"]);
        let mut expressions = Vec::new();
        let mut fields = decoder.fields(node)?;
        fields.optional("cosign", |decoder, node| cosign(decoder, node, &mut expressions));
        let name = fields.required_string("name");
        fields.optional("notary", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            for (field, path) in [("certs", "notary.certs"), ("tsaCerts", "notary.tsaCerts")] {
                fields.optional(field, |decoder, node| {
                    string_or_expression(decoder, node, path, &mut expressions)
                });
            }
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(Self {
            name: name?,
            body: decoder.subtree(node)?,
            expressions,
        })
    }
}

type Expressions = Vec<(&'static str, Expression)>;

fn string_or_expression<'t>(
    decoder: &mut Decoder<'t>,
    node: Node<'t>,
    path: &'static str,
    expressions: &mut Expressions,
) -> Option<()> {
    decoder.one_of(node, &["value", "expression"]);
    let mut fields = decoder.fields(node)?;
    fields.string("value");
    let expression = fields.optional("expression", Decoder::expression);
    expressions.extend(expression.map(|expression| (path, expression)));
    fields.finish();
    Some(())
}

fn cosign<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, expressions: &mut Expressions) -> Option<()> {
    let mut fields = decoder.fields(node)?;
    fields.optional("annotations", Decoder::string_map);
    fields.optional("certificate", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        for (field, path) in [
            ("cert", "cosign.certificate.cert"),
            ("certChain", "cosign.certificate.certChain"),
        ] {
            fields.optional(field, |decoder, node| {
                string_or_expression(decoder, node, path, expressions)
            });
        }
        fields.finish();
        Some(())
    });
    fields.optional("ctlog", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["ctLogPubKey", "rekorPubKey", "tsaCertChain", "url"]);
        fields.bool("insecureIgnoreSCT");
        fields.bool("insecureIgnoreTlog");
        fields.finish();
        Some(())
    });
    fields.optional("key", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["data", "hashAlgorithm", "kms"]);
        let expression = fields.optional("expression", Decoder::expression);
        expressions.extend(expression.map(|expression| ("cosign.key", expression)));
        fields.finish();
        Some(())
    });
    fields.optional("keyless", |decoder, node| keyless(decoder, node, expressions));
    fields.optional("source", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        fields.ignore(&["PullSecrets"]);
        strings(&mut fields, &["repository", "tagPrefix"]);
        fields.finish();
        Some(())
    });
    fields.optional("trustedRoot", |decoder, node| {
        string_or_expression(decoder, node, "cosign.trustedRoot", expressions)
    });
    fields.optional("tuf", |decoder, node| {
        let mut fields = decoder.fields(node)?;
        strings(&mut fields, &["mirror"]);
        fields.optional("root", |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["data", "path"]);
            fields.finish();
            Some(())
        });
        fields.finish();
        Some(())
    });
    fields.finish();
    Some(())
}

fn keyless<'t>(decoder: &mut Decoder<'t>, node: Node<'t>, expressions: &mut Expressions) -> Option<()> {
    let mut fields = decoder.fields(node)?;
    fields.optional("additionalExtensions", Decoder::string_map);
    fields.required("identities", |decoder, node| {
        decoder.list(node, |decoder, node| {
            let mut fields = decoder.fields(node)?;
            strings(&mut fields, &["issuer", "issuerRegExp", "subject", "subjectRegExp"]);
            let expression = fields.optional("subjectExpression", Decoder::expression);
            expressions.extend(expression.map(|expression| ("cosign.keyless.identities", expression)));
            fields.finish();
            Some(())
        })
    });
    strings(&mut fields, &["roots"]);
    fields.finish();
    Some(())
}
