//! The message of a signature: a compressed archive of YAML files, and the manifest of an object in it.
//!
//! Upstream counterpart: `BlobManifestFetcher` of `pkg/k8smanifest/verify.go`, `pkg/util/{image,yaml}.go` of
//! `k8s-manifest-sigstore`.

use super::{diff::flatten, ignore::IgnoreFields};
use kyvtest_cel::library::kyverno::gunzip;
use kyvtest_go_compat::{
    text::base64,
    value::{Data, Document},
    yaml,
};
use kyvtest_model::kube::parse_api_version;

/// How many manifests an object is compared with if none has its name.
const CANDIDATES: usize = 3;

/// Decodes the annotation; what comes out is signed.
///
/// # Errors
/// If the text is not base64.
pub(super) fn decode(annotation: &str) -> Result<Vec<u8>, String> {
    let bytes = base64::decode(annotation.as_bytes(), true).map_err(|at| {
        format!("failed to decode base64 message in the annotation: illegal base64 data at input byte {at}")
    })?;
    // Upstream goes on without text that cannot be decompressed.
    Ok(gunzip(&bytes).unwrap_or_default())
}

/// The manifests that an object is compared with; `None` if there is none of its kind.
///
/// # Errors
/// If the archive cannot be read.
pub(super) fn manifests(signed: &[u8], object: &Data, ignore: &IgnoreFields) -> Result<Option<Vec<Data>>, String> {
    let text = |value: &Data, path: &[&str]| value.at(path).and_then(Data::as_str).unwrap_or_default().to_owned();
    let kind = text(object, &["kind"]);
    let mut all = documents(signed)?;
    all.retain(|manifest| text(manifest, &["kind"]) == kind);
    if all.is_empty() {
        return Ok(None);
    }
    let group = |value: &Data| parse_api_version(&text(value, &["apiVersion"])).0.to_owned();
    let name = ["metadata", "name"];
    let named: Vec<&Data> = all
        .iter()
        .filter(|manifest| group(manifest) == group(object) && text(manifest, &name) == text(object, &name))
        .collect();
    let namespace = ["metadata", "namespace"];
    let found = match named.as_slice() {
        [] => None,
        [only] => Some((*only).clone()),
        [first, ..] => {
            let mut same = named.iter();
            let same = same.find(|manifest| text(manifest, &namespace) == text(object, &namespace));
            Some((*same.unwrap_or(first)).clone())
        }
    };
    if let Some(found) = found {
        return Ok(Some(vec![found]));
    }
    // None has the name: those that have most in common with the object.
    let patterns = ignore.patterns(object);
    let counted = |value: &Data| {
        let mut values = flatten(value);
        values.retain(|key, _| !patterns.iter().any(|pattern| pattern.matches(key)));
        values
    };
    let own = counted(object);
    let common = |manifest: &Data| {
        let values = counted(manifest);
        own.iter()
            .filter(|(key, value)| values.get(*key) == Some(value))
            .count()
    };
    let mut ranked: Vec<(usize, Data)> = all.into_iter().map(|manifest| (common(&manifest), manifest)).collect();
    ranked.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let most = ranked.first().map_or(0, |(count, _)| *count);
    ranked.retain(|(count, _)| *count == most);
    ranked.truncate(CANDIDATES);
    Ok(Some(ranked.into_iter().map(|(_, manifest)| manifest).collect()))
}

/// The YAML documents of a message: YAML itself, or a compressed archive of it.
fn documents(signed: &[u8]) -> Result<Vec<Data>, String> {
    let failed = |error: &str| format!("failed to read YAMLs in the gzipped message: {error}");
    let plain = parse(&String::from_utf8_lossy(signed));
    if !plain.is_empty() {
        return Ok(plain);
    }
    let archive = gunzip(signed)
        .map_err(|error| failed(&format!("gzip.NewReader() failed while decompressing tar gz: {error}")))?;
    let mut files =
        files(&archive).ok_or_else(|| failed("tarReader.Next() failed while decompressing tar gz: unexpected EOF"))?;
    files.sort();
    Ok(files.iter().flat_map(|(_, text)| parse(text)).collect())
}

/// The objects of a YAML text.
fn parse(text: &str) -> Vec<Data> {
    let stream = yaml::read(text, yaml::Mode::Lax, &yaml::Limits::default());
    let documents = stream.into_documents().into_iter();
    let trees = documents.filter_map(|document| document.into_tree().ok());
    trees
        .map(|tree| Data::from(Document::from(tree.root()).root()))
        .filter(|document| document.get("kind").and_then(Data::as_str).is_some())
        .collect()
}

/// The names and texts of the plain files in an archive in tar's format; `None` if it is not well formed.
fn files(archive: &[u8]) -> Option<Vec<(String, String)>> {
    const BLOCK: usize = 512;
    let mut files = Vec::new();
    let mut at = 0;
    while let Some(header) = archive.get(at..at + BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            return Some(files);
        }
        let text = |from: usize, length: usize| {
            let field = header[from..from + length]
                .split(|byte| *byte == 0)
                .next()
                .unwrap_or_default();
            String::from_utf8_lossy(field).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124, 12), 8).ok()?;
        at += BLOCK;
        let content = archive.get(at..at.checked_add(size)?)?;
        let (name, is_file) = (text(0, 100), matches!(header[156], b'0' | 0));
        if is_file && !name.starts_with("..") {
            files.push((name, String::from_utf8_lossy(content).into_owned()));
        }
        at += size.div_ceil(BLOCK) * BLOCK;
    }
    (at >= archive.len()).then_some(files)
}
