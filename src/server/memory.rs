//! The memory limit of the process's control group.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits from here on stand for no limit: version 1 has no word for it, but the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// Returns the memory limit of the process's control group and of the groups above it, in bytes; `None` without a limit.
pub(crate) fn limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limit_below(Path::new("/sys/fs/cgroup"), &groups)
}

/// `groups` has a line `number:controllers:path` for each hierarchy. In version 2 there is one, without names of controllers.
fn limit_below(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let (root, file) = match controllers.split(',').any(|controller| controller == "memory") {
            true => (root.join("memory"), "memory.limit_in_bytes"),
            false if controllers.is_empty() => (root.to_owned(), "memory.max"),
            false => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        // In a container the path may be that of the host, where the file system shows only the container's group.
        let folders = group.ancestors().take_while(|folder| folder.starts_with(&root)).map(PathBuf::from);
        folders.filter_map(|folder| read(&folder.join(file))).min()
    });
    limits.min()
}

fn read(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_the_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let limit = |groups: &str| limit_below(folder.path(), groups);
        let (v1, v2) = ("9:name=systemd:/a\n5:cpu,memory:/a/b\n1:pids:/a/b\n", "0::/a/b\n");
        assert_eq!((limit(v1), limit(v2), limit("")), (None, None, None));
        write("a/b/memory.max", "max\n");
        write("memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!((limit(v1), limit(v2)), (None, None));
        write("a/b/memory.max", "536870912\n");
        write("memory/a/b/memory.limit_in_bytes", "268435456\n");
        assert_eq!((limit(v1), limit(v2)), (Some(256 << 20), Some(512 << 20)));
        write("a/memory.max", "1048576\n");
        write("memory/memory.limit_in_bytes", "2097152\n");
        assert_eq!((limit(v1), limit(v2)), (Some(2 << 20), Some(1 << 20)));
        // The path of another file system.
        assert_eq!((limit("5:memory:/kubepods/x\n"), limit("0::/x/y\n")), (Some(2 << 20), None));
    }
}
