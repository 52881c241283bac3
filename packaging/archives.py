"""Archives whose bytes depend on their content alone: sorted names, one time, no owner, no name of a file system."""
import gzip
import io
import tarfile


def tar(files, time):
    """Returns a tar archive of `files`: path -> (mode, content); content is bytes, or the target of a symbolic link as str."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        folders = set()
        for path, (mode, content) in sorted(files.items()):
            parents = path.split("/")[:-1]
            for depth in range(1, len(parents) + 1):
                folder = "/".join(parents[:depth])
                if folder not in folders:
                    folders.add(folder)
                    archive.addfile(entry(folder, 0o755, tarfile.DIRTYPE, time))
            if isinstance(content, str):
                link = entry(path, 0o777, tarfile.SYMTYPE, time)
                link.linkname = content
                archive.addfile(link)
            else:
                file = entry(path, mode, tarfile.REGTYPE, time)
                file.size = len(content)
                archive.addfile(file, io.BytesIO(content))
    return out.getvalue()


def entry(path, mode, kind, time):
    info = tarfile.TarInfo(path)
    info.mode, info.type, info.mtime = mode, kind, time
    info.uname = info.gname = "root"
    return info


def zipped(data):
    """Returns `data` in gzip's format, without a name and a time."""
    return gzip.compress(data, 9, mtime=0)
