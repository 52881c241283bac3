//! Reads a folder's files, and splits them into documents (`manifest.LoadFiles`).

use super::{LoadError, go_error};
use crate::admission::metrics::manifests::sha256_text;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The maximum bytes of all files of a folder together.
const MAX_BYTES: u64 = 64 << 20;

/// One document and the file that contains it.
#[derive(Debug, PartialEq)]
pub(super) struct Document {
    pub(super) file: PathBuf,
    pub(super) text: Vec<u8>,
}

/// The content of a folder.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Contents {
    /// The documents, in the order of the files' names.
    pub(super) documents: Vec<Document>,
    /// The hash `sha256:…` of the whole text; empty for an empty folder.
    pub(super) hash: String,
}

/// Reads the YAML and JSON files in the folder, without subfolders.
///
/// # Errors
/// If the folder or a file cannot be read, or is too large.
pub(super) fn read(folder: &Path) -> Result<Contents, LoadError> {
    let unreadable = |error: &std::io::Error| {
        let why = go_error(error);
        LoadError::Unreadable(format!("failed to read manifest directory {folder:?}: open {}: {why}", folder.display()))
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| unreadable(&error))? {
        let entry = entry.map_err(|error| unreadable(&error))?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder && is_manifest(Path::new(&entry.file_name())) {
            names.push(entry.file_name());
        }
    }
    names.sort();
    let (mut documents, mut digest, mut is_empty) = (Vec::new(), Sha256::new(), true);
    let mut left = MAX_BYTES;
    for name in names {
        let file = folder.join(name);
        let text = read_file(&file, left)?;
        if text.is_empty() {
            continue;
        }
        left -= text.len() as u64;
        is_empty = false;
        digest.update(&text);
        digest.update([0]);
        let texts = numbered_documents_of(&text)
            .map_err(|why| LoadError::Undecodable(format!("failed to split YAML documents in file {file:?}: {why}")))?;
        documents.extend(texts.into_iter().map(|(_, text)| Document { file: file.clone(), text }));
    }
    let hash = if is_empty { String::new() } else { sha256_text(&digest.finalize()) };
    Ok(Contents { documents, hash })
}

/// Reads a file of at most `at_most` bytes. A file that is not regular, such as a pipe, is refused because it may never end.
fn read_file(file: &Path, at_most: u64) -> Result<Vec<u8>, LoadError> {
    let failed = |why: &str| LoadError::Unreadable(format!("failed to read file {file:?}: {why}"));
    let unreadable = |error: io::Error| failed(&format!("open {}: {}", file.display(), go_error(&error)));
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(failed("not a regular file"));
    }
    let mut text = Vec::new();
    fs::File::open(file).and_then(|file| file.take(at_most + 1).read_to_end(&mut text)).map_err(unreadable)?;
    match text.len() as u64 <= at_most {
        true => Ok(text),
        false => Err(failed(&format!("the files of the folder have more than {MAX_BYTES} bytes together"))),
    }
}

/// Whether the extension is that of a YAML or JSON file.
fn is_manifest(name: &Path) -> bool {
    let extension = name.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    matches!(extension.as_deref(), Some("yaml" | "yml" | "json"))
}

/// Splits the text at lines that begin with `---`. Documents are trimmed, and empty documents are dropped (`utilyaml.YAMLReader`). Each has
/// the line on which it begins.
///
/// # Errors
/// If text other than a comment follows a separator on its line.
pub(crate) fn numbered_documents_of(text: &[u8]) -> Result<Vec<(usize, Vec<u8>)>, LoadError> {
    let mut documents = Vec::new();
    let mut current: Vec<u8> = Vec::new();
    let mut finish = |begin: usize, document: &[u8]| {
        let trimmed = document.trim_ascii();
        if !trimmed.is_empty() {
            let blank = document.len() - document.trim_ascii_start().len();
            let skipped = document.iter().take(blank).filter(|byte| **byte == b'\n').count();
            documents.push((begin + skipped, trimmed.to_vec()));
        }
    };
    let mut begin = 1;
    for (number, line) in (1..).zip(text.split_inclusive(|byte| *byte == b'\n')) {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = rest.trim_ascii();
            if !rest.is_empty() && !rest.starts_with(b"#") {
                return Err(LoadError::Undecodable(format!(
                    "invalid Yaml document separator: {}",
                    String::from_utf8_lossy(rest)
                )));
            }
            if !current.is_empty() {
                finish(begin, &current);
                current.clear();
                begin = number + 1;
                continue;
            }
        }
        // A separator that follows no document stays part of the text, as in Go.
        if current.is_empty() {
            begin = number;
        }
        current.extend_from_slice(line);
    }
    finish(begin, &current);
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_in_order_and_cut_at_separators() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(read(folder.path()).unwrap(), Contents::default());
        write("b.YAML", "x: 1\n---\ny: 2\n--- # why\n\n");
        write("a.json", "{}");
        write("empty.yml", "");
        write("notes.txt", "x");
        fs::create_dir(folder.path().join("c.yaml")).unwrap();
        let contents = read(folder.path()).unwrap();
        let texts: Vec<_> = contents
            .documents
            .iter()
            .map(|document| (document.file.file_name().unwrap().to_str().unwrap(), &*document.text))
            .collect();
        assert_eq!(texts, [("a.json", &b"{}"[..]), ("b.YAML", b"x: 1"), ("b.YAML", b"y: 2")]);
        let hash = sha256_text(&Sha256::digest(b"{}\0x: 1\n---\ny: 2\n--- # why\n\n\0"));
        assert_eq!(contents.hash, hash);
    }

    #[test]
    fn an_endless_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("a.yaml")).unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().ends_with("a.yaml\": not a regular file"));
        fs::remove_file(folder.path().join("a.yaml")).unwrap();
        fs::File::create(folder.path().join("a.yaml")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().ends_with("have more than 67108864 bytes together"));
    }

    #[test]
    fn separators_are_lines_of_their_own() {
        assert_eq!(numbered_documents_of(b"---\nx: 1\n").unwrap(), [(1, b"---\nx: 1".to_vec())]);
        assert_eq!(numbered_documents_of(b"x: ---\n").unwrap(), [(1, b"x: ---".to_vec())]);
        let both = [(1, b"x: 1".to_vec()), (5, b"y: 2".to_vec())];
        assert_eq!(numbered_documents_of(b"x: 1\n---\n\n\ny: 2\n---\n").unwrap(), both);
        let error = numbered_documents_of(b"x: 1\n---y\n").unwrap_err();
        assert_eq!(error.to_string(), "invalid Yaml document separator: y");
    }
}
