//! `kube-admission-proxy envtest`: a folder or an archive with the binaries that controller-runtime's envtest starts.

use super::arguments::Envtest;
use super::{apiserver, etcd};
use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The names of the binaries.
const NAMES: [&str; 2] = [apiserver::NAME, etcd::NAME];
/// The folder in the archive, as in those of controller-tools.
const ARCHIVE_FOLDER: &str = "controller-tools/envtest";

/// Writes the folder or the archive.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn make(flags: &Envtest) -> Result<()> {
    let program = std::env::current_exe().context("the path of this program")?;
    match (&flags.folder, &flags.tar) {
        (Some(folder), _) => {
            link(folder, &program).with_context(|| format!("cannot make links in {}", folder.display()))?;
            println!("export KUBEBUILDER_ASSETS={}", fs::canonicalize(folder)?.display());
            Ok(())
        }
        (None, Some(file)) if file == Path::new("-") => archive(io::stdout().lock(), &program).context("the archive"),
        (None, Some(file)) => {
            let written = fs::File::create(file).map_err(anyhow::Error::from).and_then(|to| archive(to, &program));
            written.with_context(|| format!("--tar={}", file.display()))
        }
        (None, None) => Ok(()),
    }
}

fn link(folder: &Path, program: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for name in NAMES {
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::os::unix::fs::symlink(program, &path)?,
        }
    }
    Ok(())
}

/// Writes the archive. It has copies: setup-envtest unpacks no links.
fn archive(to: impl Write, program: &Path) -> Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(to, Compression::fast()));
    for name in NAMES {
        archive.append_path_with_name(program, format!("{ARCHIVE_FOLDER}/{name}"))?;
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn links_replace_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (program, assets) = (folder.path().join("program"), folder.path().join("a/b"));
        fs::write(&program, "x").unwrap();
        link(&assets, &program).unwrap();
        link(&assets, &program).unwrap();
        for name in NAMES {
            assert_eq!(fs::read_link(assets.join(name)).unwrap(), program);
        }
    }

    #[test]
    fn the_archive_has_executables_below_the_folder_of_controller_tools() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "x").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut bytes = Vec::new();
        archive(&mut bytes, &program).unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap() & 0o111)
        });
        let wanted = NAMES.map(|name| (format!("{ARCHIVE_FOLDER}/{name}"), 0o111));
        assert_eq!(entries.collect::<Vec<_>>(), wanted);
    }
}
