//! Who signed, and which attestors of policies that satisfies.
//!
//! Upstream counterpart: `matchSignatures` and `checkAnnotations` of `pkg/image/verifiers/cpol/cosign/cosign.go`, and
//! `checkOptions` of `pkg/image/verifiers/ivpol/cosign/opts.go` with cosign's `CheckOpts.Identities` (Kyverno 1.19), texts
//! included.

use kyvtest_go_compat::{regex::Regex, text::wildcard, value::Data};

/// A valid signature: who made it, and what it is annotated with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    pub identity: Identity,
    pub annotations: Vec<(String, String)>,
}

/// Who made a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// An attestor of an ImageValidatingPolicy, by its name.
    Attestor(String),
    /// The holder of a private key, by the public key in PEM.
    Key(String),
    /// The same, by the address of a key management service.
    Kms(String),
    /// The same, by `namespace/name` of a Secret.
    Secret(String),
    /// The holder of a certificate in PEM, or of one that its chain vouches for.
    Certificate(String),
    /// Who Fulcio issued a certificate to.
    Keyless {
        subject: String,
        issuer: String,
        /// Further extensions of the certificate.
        extensions: Vec<(String, String)>,
    },
}

/// What an attestor accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Accepts {
    Identity(Identity),
    /// Several identities of keyless signatures, one of which is enough.
    Keyless(Vec<Pattern>),
    /// Any signature, because the entry has no attestor.
    Anyone,
}

/// The identities of keyless signatures that an attestor accepts; empty texts accept everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Pattern {
    subject: String,
    subject_expression: String,
    issuer: String,
    issuer_expression: String,
    /// Whether `subject` and `issuer` may have wildcards.
    wildcards: bool,
    extensions: Vec<(String, String)>,
}

/// PEM without indentation and blank lines.
fn pem(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

fn text<'d>(data: &'d Data, path: &[&str]) -> &'d str {
    data.at(path).and_then(Data::as_str).unwrap_or_default()
}

fn pairs(data: Option<&Data>) -> Vec<(String, String)> {
    let entries = data.and_then(Data::as_map).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.to_string(), value.as_str()?.to_owned())))
        .collect()
}

impl Accepts {
    /// What an entry of a classic rule accepts.
    fn of_entry(entry: &Data) -> Vec<Self> {
        let there = |key: &str| entry.get(key).is_some_and(|part| !part.is_null());
        if there("keys") {
            let (key, kms) = (text(entry, &["keys", "publicKeys"]), text(entry, &["keys", "kms"]));
            let secret = [
                text(entry, &["keys", "secret", "namespace"]),
                text(entry, &["keys", "secret", "name"]),
            ];
            let identity = if key.contains("://") {
                Identity::Kms(key.trim().to_owned())
            } else if !key.is_empty() {
                Identity::Key(pem(key))
            } else if secret != ["", ""] {
                Identity::Secret(secret.join("/"))
            } else {
                Identity::Kms(kms.to_owned())
            };
            return vec![Self::Identity(identity)];
        }
        if there("certificates") {
            return certificates([
                text(entry, &["certificates", "cert"]),
                text(entry, &["certificates", "certChain"]),
            ]);
        }
        match entry.get("keyless").filter(|part| !part.is_null()) {
            Some(keyless) => vec![Self::Keyless(vec![Pattern {
                wildcards: true,
                extensions: pairs(keyless.get("additionalExtensions")),
                ..Pattern::read(keyless)
            }])],
            None => vec![Self::Anyone],
        }
    }

    /// What an attestor of an ImageValidatingPolicy accepts.
    fn of_attestor(attestor: &Data) -> Vec<Self> {
        let named = Self::Identity(Identity::Attestor(text(attestor, &["name"]).to_owned()));
        let mut accepted = vec![named];
        let (key, kms) = (
            text(attestor, &["cosign", "key", "data"]),
            text(attestor, &["cosign", "key", "kms"]),
        );
        if !key.is_empty() {
            accepted.push(Self::Identity(Identity::Key(pem(key))));
        } else if !kms.is_empty() {
            accepted.push(Self::Identity(Identity::Kms(kms.to_owned())));
        }
        let keyless = attestor.at(&["cosign", "keyless"]);
        if let Some(list) = keyless
            .and_then(|keyless| keyless.get("identities"))
            .and_then(Data::as_list)
        {
            // An expression for the subject is CEL of the policy: a mock can only name the attestor.
            let plain = list
                .iter()
                .filter(|identity| text(identity, &["subjectExpression"]).is_empty());
            accepted.push(Self::Keyless(plain.map(Pattern::read).collect()));
        }
        accepted.extend(certificates([
            text(attestor, &["cosign", "certificate", "cert", "value"]),
            text(attestor, &["cosign", "certificate", "certChain", "value"]),
        ]));
        accepted.extend(certificates([text(attestor, &["notary", "certs", "value"]), ""]));
        accepted
    }

    /// Whether the attestor accepts an identity, or why not if upstream has a text for it.
    fn fits(&self, identity: &Identity) -> Result<bool, String> {
        match (self, identity) {
            (Self::Anyone, _) => Ok(true),
            (Self::Identity(Identity::Key(own)), Identity::Key(key)) => Ok(*own == pem(key)),
            (Self::Identity(Identity::Certificate(own)), Identity::Certificate(certificate)) => {
                Ok(*own == pem(certificate))
            }
            (Self::Identity(own), identity) => Ok(own == identity),
            (
                Self::Keyless(patterns),
                Identity::Keyless {
                    subject,
                    issuer,
                    extensions,
                },
            ) => {
                let mut errors = Vec::new();
                for pattern in patterns {
                    match pattern.check(subject, issuer, extensions) {
                        Ok(()) => return Ok(true),
                        Err(error) => errors.push(error),
                    }
                }
                Err(errors.join("; "))
            }
            (Self::Keyless(_), _) => Ok(false),
        }
    }
}

fn certificates(texts: [&str; 2]) -> Vec<Accepts> {
    let given = texts.into_iter().filter(|text| !text.is_empty());
    given
        .map(|text| Accepts::Identity(Identity::Certificate(pem(text))))
        .collect()
}

impl Pattern {
    fn read(identity: &Data) -> Self {
        let text = |key: &str| text(identity, &[key]).to_owned();
        Self {
            subject: text("subject"),
            subject_expression: text("subjectRegExp"),
            issuer: text("issuer"),
            issuer_expression: text("issuerRegExp"),
            wildcards: false,
            extensions: Vec::new(),
        }
    }

    fn check(&self, subject: &str, issuer: &str, extensions: &[(String, String)]) -> Result<(), String> {
        self.part("subject", (&self.subject, &self.subject_expression), subject)?;
        self.part("issuer", (&self.issuer, &self.issuer_expression), issuer)?;
        for (key, wanted) in &self.extensions {
            let found = extensions.iter().find(|(other, _)| other == key);
            let found = found.map_or("", |(_, value)| value.as_str());
            if !wildcard::matches(wanted, found) {
                return Err(format!(
                    "extension mismatch: expected {wanted} for key {key}, received {found}"
                ));
            }
        }
        Ok(())
    }

    fn part(&self, name: &str, (plain, expression): (&str, &str), found: &str) -> Result<(), String> {
        let expressed = |expression: &str| match Regex::new(expression) {
            Ok(regex) => Ok(regex.is_match(found)),
            Err(error) => Err(format!("invalid regexp for {name}: {expression} : {error}")),
        };
        let plainly = |plain: &str| {
            if self.wildcards {
                wildcard::matches(plain, found)
            } else {
                plain == found
            }
        };
        let is_subject = name == "subject";
        let (fits, wanted) = match (plain, expression) {
            ("", "") => (true, ""),
            (plain, "") => (plainly(plain), plain),
            ("", expression) => (expressed(expression)?, expression),
            // Of a subject one form is enough for a classic rule; cosign itself looks at the expression only.
            (plain, expression) if is_subject && self.wildcards => (plainly(plain) || expressed(expression)?, plain),
            (plain, expression) if self.wildcards => (plainly(plain) && expressed(expression)?, plain),
            (_, expression) => (expressed(expression)?, expression),
        };
        if fits {
            return Ok(());
        }
        Err(format!("{name} mismatch: expected {wanted}, received {found}"))
    }
}

/// Whether one of the signatures satisfies an entry of a classic rule; `annotations` are those that the signature must have.
///
/// # Errors
/// Upstream's text, or the words with which cosign begins its own.
pub(crate) fn satisfies_entry(entry: &Data, annotations: Option<&Data>, signers: &[Signer]) -> Result<(), String> {
    satisfies(&Accepts::of_entry(entry), &pairs(annotations), signers)
}

/// Whether one of the signatures satisfies an attestor of an ImageValidatingPolicy.
pub(crate) fn satisfies_attestor(attestor: &Data, signers: &[Signer]) -> bool {
    let annotations = pairs(attestor.at(&["cosign", "annotations"]));
    satisfies(&Accepts::of_attestor(attestor), &annotations, signers).is_ok()
}

fn satisfies(accepted: &[Accepts], annotations: &[(String, String)], signers: &[Signer]) -> Result<(), String> {
    let (mut errors, mut accepts) = (Vec::new(), false);
    for signer in signers {
        let mut fits = false;
        for accepted in accepted {
            match accepted.fits(&signer.identity) {
                Ok(found) => fits |= found,
                Err(error) => errors.push(error),
            }
        }
        accepts |= fits;
        if fits && annotations.iter().all(|pair| signer.annotations.contains(pair)) {
            return Ok(());
        }
    }
    Err(if accepts {
        "no signature matched the required annotations".to_owned()
    } else if errors.is_empty() {
        "no matching signatures".to_owned()
    } else {
        errors.join("; ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kyvtest_go_compat::value::go_json;

    fn data(json: &str) -> Data {
        Data::from(go_json::read(json).expect("JSON").root())
    }

    fn keyless(subject: &str, issuer: &str) -> Signer {
        Signer {
            identity: Identity::Keyless {
                subject: subject.to_owned(),
                issuer: issuer.to_owned(),
                extensions: Vec::new(),
            },
            annotations: vec![("env".to_owned(), "prod".to_owned())],
        }
    }

    #[test]
    fn keys_are_compared_without_indentation() {
        let entry =
            data(r#"{"keys": {"publicKeys": "-----BEGIN PUBLIC KEY-----\n  AAAA\n-----END PUBLIC KEY-----\n"}}"#);
        let signer = |key: &str| Signer {
            identity: Identity::Key(key.to_owned()),
            annotations: Vec::new(),
        };
        let own = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----";
        assert_eq!(satisfies_entry(&entry, None, &[signer("other"), signer(own)]), Ok(()));
        let error = satisfies_entry(&entry, None, &[signer("other")]);
        assert_eq!(error, Err("no matching signatures".to_owned()));
    }

    #[test]
    fn subjects_of_classic_rules_have_wildcards_and_those_of_image_policies_have_none() {
        let signers = [keyless("https://ci.example/till", "https://issuer.example")];
        let entry = data(r#"{"keyless": {"subject": "https://ci.example/*", "issuer": "https://issuer.example"}}"#);
        assert_eq!(satisfies_entry(&entry, None, &signers), Ok(()));
        let attestor = data(
            r#"{"name": "ci", "cosign": {"keyless": {"identities": [{"subject": "https://ci.example/*", "issuer": "https://issuer.example"}]}}}"#,
        );
        assert!(!satisfies_attestor(&attestor, &signers));
        let attestor = data(
            r#"{"name": "ci", "cosign": {"keyless": {"identities": [{"subjectRegExp": "^https://ci\\.example/"}]}}}"#,
        );
        assert!(satisfies_attestor(&attestor, &signers));
        let entry = data(r#"{"keyless": {"subject": "someone@shop.example"}}"#);
        let error = satisfies_entry(&entry, None, &signers);
        let text = "subject mismatch: expected someone@shop.example, received https://ci.example/till";
        assert_eq!(error, Err(text.to_owned()));
    }

    #[test]
    fn annotations_belong_to_a_signature_that_fits() {
        let signers = [keyless("a", "b")];
        let entry = data(r#"{"keyless": {"subject": "a"}}"#);
        let wanted = data(r#"{"env": "test"}"#);
        let error = satisfies_entry(&entry, Some(&wanted), &signers);
        assert_eq!(error, Err("no signature matched the required annotations".to_owned()));
        assert_eq!(
            satisfies_entry(&entry, Some(&data(r#"{"env": "prod"}"#)), &signers),
            Ok(())
        );
    }
}
