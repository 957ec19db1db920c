"""SCons tool ``stm32_cache``: a CacheDir for more than one machine and user.

    env = Environment(tools=["default", "stm32_cache"])
    env.CacheDir("/var/cache/scons")

Entries are checked when they are taken out: one that was cut off or garbled is built again and replaced, where SCons's
own class would copy it into the build. Entries and folders have the permissions of the cache's top folder, whatever the
user's umask; a user who may not write there takes entries out all the same. There is no file of settings, which could
be damaged or stay locked. Entries of SCons's own class in the same folder are neither used nor touched. (The function
``CacheDir`` without ``env`` is that class's.)

The sum finds accidents, not malice: who may write to a cache decides what goes into the builds of all.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

import SCons.CacheDir
from SCons.Errors import StopError
from SCons.Script import GetOption
from SCons.Util import hash_signature

_SUFFIX = ".checked"
_MAGIC = b"tvmSTM32cache-1\n"
_TRAILER = len(_MAGIC) + hashlib.sha256().digest_size
_PREFIX_LENGTH = 2
_UMASK = os.umask(0)
os.umask(_UMASK)


class CheckedCacheDir(SCons.CacheDir.CacheDir):
    """Entries are the files, followed by a sum of their name and content."""

    def __init__(self, path: str | None) -> None:
        super().__init__(None)
        self.path = path
        self.config = {"prefix_len": _PREFIX_LENGTH}
        if path is None or GetOption("cache_disable") or GetOption("no_exec"):
            return
        try:
            os.makedirs(path, exist_ok=True)
            # Raises for what is no folder as well.
            os.listdir(path)
        except OSError as error:
            raise StopError(
                f"CacheDir: cannot use '{path}': {error.strerror}\n"
                "  try: another folder, its permissions, or scons --cache-disable\n"
            ) from error
        with contextlib.suppress(OSError), open(os.path.join(path, "CACHEDIR.TAG"), "xb") as tag:
            tag.write(SCons.CacheDir.CACHE_TAG)

    def cachepath(self, node) -> tuple[str | None, str | None]:
        """Folder and path of a node's entry; nothing where caching is off."""
        folder, path = super().cachepath(node)
        return folder, path + _SUFFIX if path else None

    def get_cachedir_csig(self, node) -> str:
        """The content signature of what an entry holds, for dry runs; "" of a damaged one."""
        _, entry = self.cachepath(node)
        content = _content(entry) if entry else None
        return "" if content is None else hash_signature(content)

    def retrieve(self, node) -> bool:
        """Copy a sound entry to the node's place; a damaged one is as good as none."""
        _, entry = self.cachepath(node)
        if not entry:
            return False
        if not _is_sound(entry):
            return False
        found = super().retrieve(node)
        target = node.get_internal_path()
        if found and os.path.isfile(target) and not os.path.islink(target):
            # The entry's permissions are the cache's.
            os.chmod(target, stat.S_IMODE(os.stat(target).st_mode) & ~_UMASK | stat.S_IWUSR)
        return found

    def push(self, node) -> object:
        """Make an entry of a built node, in a folder that all users of the cache may use."""
        folder, entry = self.cachepath(node)
        if not folder or self.is_readonly():
            return None
        with contextlib.suppress(OSError):
            if not os.path.isdir(folder):
                os.mkdir(folder)
                os.chmod(folder, stat.S_IMODE(os.stat(self.path).st_mode))
            if os.path.lexists(entry) and not _is_sound(entry):
                os.remove(entry)
        return super().push(node)

    @classmethod
    def copy_to_cache(cls, _env, src: str, dst: str) -> str:
        """Write an entry; SCons renames it into place when it is whole."""
        with open(src, "rb") as stream:
            content = stream.read()
        with open(dst, "wb") as stream:
            stream.write(content + _trailer(dst, content))
        # The folder of entries is above the temporary one.
        allowed = os.stat(os.path.dirname(os.path.dirname(dst))).st_mode
        # Who may read the folder may execute what was so.
        execute = (allowed & 0o444) >> 2 if os.stat(src).st_mode & stat.S_IXUSR else 0
        os.chmod(dst, allowed & 0o666 | execute)
        return dst

    @classmethod
    def copy_from_cache(cls, _env, src: str, dst: str) -> str:
        """Copy what an entry holds. Raises OSError, which SCons takes for a miss, when it was damaged meanwhile."""
        content = _content(src)
        if content is None:
            raise OSError(f"'{src}' is damaged")
        with open(dst, "wb") as stream:
            stream.write(content)
        return dst


def _trailer(entry: str, content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(os.path.basename(entry).encode() + b"\0" + content).digest()


def _is_sound(entry: str) -> bool:
    """Whether an entry is there and undamaged. A link may name a file beside it, as those of a library's versions."""
    try:
        return os.path.basename(os.readlink(entry)) == os.readlink(entry) not in (os.curdir, os.pardir)
    except OSError:
        return _content(entry) is not None


def _content(entry: str) -> bytes | None:
    """What an entry holds; nothing when it is not there, unreadable or damaged."""
    try:
        # A pipe would wait for ever, a device has no end.
        if not stat.S_ISREG(os.stat(entry).st_mode):
            return None
        with open(entry, "rb") as stream:
            data = stream.read()
    except (OSError, MemoryError):
        return None
    content = data[:-_TRAILER]
    return content if data[len(content) :] == _trailer(entry, content) else None


def generate(env) -> None:
    """Use the class for CacheDirs of the environment."""
    env.Replace(CACHEDIR_CLASS=CheckedCacheDir)


def exists(_env) -> bool:
    """SCons has all it takes."""
    return True
