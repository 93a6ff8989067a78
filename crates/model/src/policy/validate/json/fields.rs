//! The Go types of a rule as tables: the fields in order, and the text for absent ones.
//!
//! Upstream counterpart: `api/kyverno/v1` (1.19) and the defaults of its schema.

/// How a part is written.
pub(super) enum Shape {
    /// A value that is omitted if empty.
    Any,
    /// A value that is written even if empty.
    Raw,
    /// A boolean that is omitted if false.
    Flag,
    /// A Go struct: its fields in order.
    Struct(&'static [Field]),
    /// A list of structs, omitted if empty.
    List(&'static [Field]),
    /// A list of structs without schema: it has no defaults, and is written even if empty.
    Wrapped(&'static [Field]),
    /// A map of lists of structs.
    Lists(&'static [Field]),
    /// Conditions in either form: a list, or `any` and `all`.
    Conditions,
}

/// A field of a Go struct.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// The text if the field is absent.
    pub(super) absent: &'static str,
    /// Whether the schema sets that, and not Go.
    pub(super) schema: bool,
}

const fn field(name: &'static str, shape: Shape, absent: &'static str) -> Field {
    Field {
        name,
        shape,
        absent,
        schema: false,
    }
}

const fn any(name: &'static str) -> Field {
    field(name, Shape::Any, "")
}

const fn raw(name: &'static str) -> Field {
    field(name, Shape::Raw, "")
}

const fn flag(name: &'static str) -> Field {
    field(name, Shape::Flag, "")
}

/// A string that is written even if empty.
const fn text(name: &'static str) -> Field {
    field(name, Shape::Raw, "\"\"")
}

const fn with_default(name: &'static str, default: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Raw,
        absent: default,
        schema: true,
    }
}

const fn part(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Shape::Struct(fields), "")
}

/// A struct that is not a pointer in Go.
const fn held(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Shape::Struct(fields), "{}")
}

const fn list(name: &'static str, fields: &'static [Field]) -> Field {
    field(name, Shape::List(fields), "")
}

pub(super) const RULE: &[Field] = &[
    text("name"),
    list("context", CONTEXT),
    any("reportProperties"),
    field("match", Shape::Struct(MATCH), "{\"resources\":{}}"),
    part("exclude", MATCH),
    field("imageExtractors", Shape::Lists(IMAGE_EXTRACTOR), ""),
    field("preconditions", Shape::Conditions, ""),
    list("celPreconditions", NAMED),
    part("mutate", MUTATE),
    part("validate", VALIDATE),
    part("generate", GENERATE),
    list("verifyImages", IMAGE),
    with_default("skipBackgroundRequests", "true"),
];

const IMAGE_EXTRACTOR: &[Field] = &[text("path"), any("value"), any("name"), any("key"), any("jmesPath")];

pub(super) const MUTATE: &[Field] = &[
    raw("mutateExistingOnPolicyUpdate"),
    list("targets", TARGET),
    raw("patchStrategicMerge"),
    any("patchesJson6902"),
    list("foreach", &FOREACH_MUTATE),
];

const TARGET: &[Field] = &[
    any("apiVersion"),
    any("kind"),
    any("namespace"),
    any("name"),
    any("uid"),
    part("selector", SELECTOR),
    list("context", CONTEXT),
    field("preconditions", Shape::Conditions, ""),
];

static FOREACH_MUTATE: [Field; 7] = [
    any("list"),
    raw("order"),
    list("context", CONTEXT),
    part("preconditions", ANY_ALL),
    raw("patchStrategicMerge"),
    any("patchesJson6902"),
    field("foreach", Shape::Wrapped(&FOREACH_MUTATE), ""),
];

pub(super) const GENERATE: &[Field] = &[
    raw("generateExisting"),
    flag("synchronize"),
    flag("orphanDownstreamOnPolicyDelete"),
    any("apiVersion"),
    any("kind"),
    any("namespace"),
    any("name"),
    any("uid"),
    raw("data"),
    held("clone", CLONE),
    held("cloneList", CLONE_LIST),
    list("foreach", FOREACH_GENERATE),
];

const FOREACH_GENERATE: &[Field] = &[
    any("list"),
    list("context", CONTEXT),
    part("preconditions", ANY_ALL),
    any("apiVersion"),
    any("kind"),
    any("namespace"),
    any("name"),
    any("uid"),
    raw("data"),
    held("clone", CLONE),
    held("cloneList", CLONE_LIST),
];

const CLONE: &[Field] = &[any("namespace"), any("name")];

const CLONE_LIST: &[Field] = &[any("namespace"), any("kinds"), part("selector", SELECTOR)];

const CONTEXT: &[Field] = &[
    text("name"),
    part("configMap", &[text("name"), any("namespace")]),
    part("apiCall", API_CALL),
    part(
        "imageRegistry",
        &[
            text("reference"),
            any("jmesPath"),
            part("imageRegistryCredentials", CREDENTIALS),
        ],
    ),
    part("variable", &[raw("value"), any("jmesPath"), raw("default")]),
    part("globalReference", &[text("name"), any("jmesPath")]),
];

const API_CALL: &[Field] = &[
    text("urlPath"),
    with_default("method", "\"GET\""),
    list("data", &[text("key"), field("value", Shape::Raw, "null")]),
    part(
        "service",
        &[
            text("url"),
            list("headers", &[text("key"), text("value")]),
            text("caBundle"),
        ],
    ),
    raw("default"),
    any("jmesPath"),
];

const CREDENTIALS: &[Field] = &[flag("allowInsecureRegistry"), any("providers"), any("secrets")];

const MATCH: &[Field] = &[
    list("any", FILTER),
    list("all", FILTER),
    any("roles"),
    any("clusterRoles"),
    list("subjects", SUBJECT),
    held("resources", RESOURCES),
];

const FILTER: &[Field] = &[
    any("roles"),
    any("clusterRoles"),
    list("subjects", SUBJECT),
    held("resources", RESOURCES),
];

pub(super) const SUBJECT: &[Field] = &[text("kind"), any("apiGroup"), text("name"), any("namespace")];

const RESOURCES: &[Field] = &[
    any("kinds"),
    any("name"),
    any("names"),
    any("namespaces"),
    any("annotations"),
    part("selector", SELECTOR),
    part("namespaceSelector", SELECTOR),
    any("operations"),
];

pub(super) const SELECTOR: &[Field] = &[any("matchLabels"), list("matchExpressions", REQUIREMENT)];

const REQUIREMENT: &[Field] = &[text("key"), text("operator"), any("values")];

const NAMED: &[Field] = &[text("name"), text("expression")];

pub(super) const ANY_ALL: &[Field] = &[list("any", CONDITION), list("all", CONDITION)];

pub(super) const CONDITION: &[Field] = &[raw("key"), any("operator"), raw("value"), any("message")];

const DENY: &[Field] = &[field("conditions", Shape::Conditions, "")];

pub(super) const VALIDATE: &[Field] = &[
    any("failureAction"),
    list(
        "failureActionOverrides",
        &[any("action"), any("namespaces"), part("namespaceSelector", SELECTOR)],
    ),
    with_default("allowExistingViolations", "true"),
    any("message"),
    part("manifests", MANIFESTS),
    list("foreach", &FOREACH),
    raw("pattern"),
    raw("anyPattern"),
    part("deny", DENY),
    part("podSecurity", POD_SECURITY),
    part("cel", CEL),
    raw("assert"),
];

static FOREACH: [Field; 8] = [
    any("list"),
    raw("elementScope"),
    list("context", CONTEXT),
    part("preconditions", ANY_ALL),
    raw("pattern"),
    raw("anyPattern"),
    part("deny", DENY),
    field("foreach", Shape::Wrapped(&FOREACH), ""),
];

const MANIFESTS: &[Field] = &[
    list("attestors", ATTESTORS),
    any("annotationDomain"),
    list(
        "ignoreFields",
        &[
            any("fields"),
            list(
                "objects",
                &[any("group"), any("version"), any("kind"), any("name"), any("namespace")],
            ),
        ],
    ),
    held("dryRun", &[flag("enable"), any("namespace")]),
    any("repository"),
];

const POD_SECURITY: &[Field] = &[
    any("level"),
    any("version"),
    list(
        "exclude",
        &[
            text("controlName"),
            any("images"),
            any("restrictedField"),
            any("values"),
        ],
    ),
];

const CEL: &[Field] = &[
    with_default("generate", "false"),
    list(
        "expressions",
        &[
            text("expression"),
            any("message"),
            any("reason"),
            any("messageExpression"),
        ],
    ),
    part("paramKind", &[any("apiVersion"), any("kind")]),
    part(
        "paramRef",
        &[
            any("name"),
            any("namespace"),
            part("selector", SELECTOR),
            any("parameterNotFoundAction"),
        ],
    ),
    list("auditAnnotations", &[text("key"), text("valueExpression")]),
    list("variables", NAMED),
];

pub(super) const IMAGE: &[Field] = &[
    any("failureAction"),
    any("type"),
    any("image"),
    any("imageReferences"),
    any("skipImageReferences"),
    any("key"),
    any("roots"),
    any("subject"),
    any("issuer"),
    any("additionalExtensions"),
    list("attestors", ATTESTORS),
    list("attestations", ATTESTATION),
    any("annotations"),
    any("repository"),
    flag("cosignOCI11"),
    with_default("mutateDigest", "true"),
    with_default("verifyDigest", "true"),
    held("validate", &[any("message"), part("deny", DENY)]),
    with_default("required", "true"),
    part("imageRegistryCredentials", CREDENTIALS),
    with_default("useCache", "true"),
];

const ATTESTATION: &[Field] = &[
    any("name"),
    text("predicateType"),
    text("type"),
    field("attestors", Shape::List(ATTESTORS), "null"),
    list("conditions", ANY_ALL),
];

pub(super) const ATTESTORS: &[Field] = &[any("count"), list("entries", ATTESTOR)];

pub(super) const ATTESTOR: &[Field] = &[
    part("keys", KEYS),
    part("certificates", CERTIFICATES),
    part("keyless", KEYLESS),
    raw("attestor"),
    any("annotations"),
    any("repository"),
    with_default("signatureAlgorithm", "\"sha256\""),
];

pub(super) const KEYS: &[Field] = &[
    any("publicKeys"),
    with_default("signatureAlgorithm", "\"sha256\""),
    any("kms"),
    part("secret", &[text("name"), text("namespace")]),
    part("rekor", REKOR),
    part("ctlog", CT_LOG),
];

pub(super) const CERTIFICATES: &[Field] = &[
    any("cert"),
    any("certChain"),
    part("rekor", REKOR),
    part("ctlog", CT_LOG),
];

pub(super) const KEYLESS: &[Field] = &[
    part("rekor", REKOR),
    part("ctlog", CT_LOG),
    any("issuer"),
    any("issuerRegExp"),
    any("subject"),
    any("subjectRegExp"),
    any("roots"),
    any("additionalExtensions"),
];

const REKOR: &[Field] = &[text("url"), any("pubkey"), flag("ignoreTlog")];

const CT_LOG: &[Field] = &[flag("ignoreSCT"), any("pubkey"), any("tsaCertChain")];
