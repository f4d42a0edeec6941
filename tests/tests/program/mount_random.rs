//! Random reads of a mounted directory whose files change, in the manner of `fsx -r`: by `pread`,
//! `readv`, `mmap`, `sendfile`, `splice` and `copy_file_range`, each compared with the content that
//! the file must have.

#![allow(clippy::unwrap_used)]

use larder_tests::Scratch;
use larder_tests::mount::{Mount, possible};
use std::process::Command;

/// Of the choices, unless `LARDER_SEED` says another one.
const SEED: &str = "20110917";

/// A model of all files by inode, and of those that are open; one random step after the other.
const STEPS: &str = r#"
import errno, mmap, os, random, sys, tempfile, time
source, mount, seed, steps = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
chance = random.Random(seed)
MOST, FILES, OPEN = 400_000, 6, 8
out = tempfile.TemporaryFile()
content, names, handles, done = {}, {}, [], {}

def fresh(size): return bytearray(chance.randbytes(size))
def size(): return chance.choice([0, 1, 4095, 4096, 4097, chance.randrange(MOST), chance.randrange(20_000)])
def path(place, number): return f"{place}/d{number % 2}/f{number}"

def replace(number):
    new = fresh(size())
    with open(path(source, number) + ".new", "wb") as f:
        f.write(new)
        inode = os.fstat(f.fileno()).st_ino
    os.rename(path(source, number) + ".new", path(source, number))
    # The number of a removed inode may come back.
    while inode in content: content[-inode - len(content)] = content.pop(inode)
    for handle in handles:
        if handle[1] == inode: handle[1] = [key for key in content if key < 0][-1]
    content[inode], names[number] = new, inode

def changed(number, how):
    data = content[names[number]]
    with open(path(source, number), "r+b") as f:
        if how == "truncate":
            length = chance.randrange(len(data) + 5000)
            f.truncate(length)
            data[length:] = b""
            data.extend(bytes(length - len(data)))
        elif how == "append":
            more = fresh(chance.randrange(1, 9000))
            f.seek(0, 2); f.write(more); data.extend(more)
        elif data:
            at = chance.randrange(len(data))
            more = fresh(min(chance.randrange(1, 9000), len(data) - at))
            f.seek(at); f.write(more); data[at:at + len(more)] = more
    settle(number)

def settle(number):
    # The kernel is told of a change at once, but not in the same moment.
    end = time.monotonic() + 120
    opened = [handle[0] for handle in handles if handle[1] == names[number]]
    wanted = bytes(content[names[number]])
    def seen(file): return os.fstat(file).st_size == len(wanted) and os.pread(file, MOST * 4, 0) == wanted
    while True:
        file = os.open(path(mount, number), os.O_RDONLY)
        found = seen(file)
        os.close(file)
        if found and all(map(seen, opened)): return
        assert time.monotonic() < end, f"the change of {number} is not seen"
        time.sleep(0.002)

def pread(file, at, length): return os.pread(file, length, at)
def readv(file, at, length):
    parts = [bytearray(max(1, length // 3 + n)) for n in range(3)]
    got = os.preadv(file, parts, at)
    return b"".join(parts)[:got][:length]
def mapped(file, at, length):
    whole = os.fstat(file).st_size
    if at >= whole: return b""
    start = at // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    end = min(at + length, whole)
    if end == start: return b""
    flags = chance.choice([mmap.MAP_SHARED, mmap.MAP_PRIVATE])
    with mmap.mmap(file, end - start, flags=flags, prot=mmap.PROT_READ, offset=start) as m:
        return m[at - start:end - start]
def to_file(move):
    def read(file, at, length):
        out.seek(0); out.truncate(0)
        total = 0
        while total < length:
            moved = move(file, at + total, length - total)
            if moved == 0: break
            total += moved
        out.seek(0)
        return out.read()
    return read
def sent(file, at, length): return os.sendfile(out.fileno(), file, at, length)
def copied(file, at, length):
    try: return os.copy_file_range(file, out.fileno(), length, offset_src=at)
    except OSError as e:
        # Between file systems the kernel may refuse; `cp` reads then.
        if e.errno not in (errno.EXDEV, errno.EOPNOTSUPP): raise
        return os.write(out.fileno(), os.pread(file, length, at))
def spliced(file, at, length):
    near, far = os.pipe()
    try:
        moved = os.splice(file, far, min(length, 65536), offset_src=at)
        return os.write(out.fileno(), os.read(near, moved)) if moved else 0
    finally: os.close(near); os.close(far)
ways = {"pread": pread, "readv": readv, "mmap": mapped, "sendfile": to_file(sent), "copy": to_file(copied)}
if hasattr(os, "splice"): ways["splice"] = to_file(spliced)

def look():
    if not handles or (len(handles) < OPEN and chance.random() < 0.3):
        number = chance.randrange(FILES)
        handles.append([os.open(path(mount, number), os.O_RDONLY), names[number]])
        assert os.fstat(handles[-1][0]).st_ino == names[number]
    file, inode = chance.choice(handles)
    data = content[inode]
    at = chance.randrange(len(data) + 1000)
    length = chance.choice([1, 4096, chance.randrange(1, 70_000), chance.randrange(1, MOST)])
    way = chance.choice(list(ways))
    found, wanted = ways[way](file, at, length), bytes(data[at:at + length])
    if way in ("sendfile", "copy", "splice") or len(found) == len(wanted): pass
    assert found == wanted, f"{way} of {length} at {at} of {len(data)}: {len(found)} of {len(wanted)}, {inode}"
    done[way] = done.get(way, 0) + 1
    if chance.random() < 0.1:
        handle = handles.pop(chance.randrange(len(handles)))
        os.close(handle[0])

for number in range(FILES):
    os.makedirs(os.path.dirname(path(source, number)), exist_ok=True)
    replace(number)
for number in range(FILES): settle(number)
for step in range(steps):
    number, what = chance.randrange(FILES), chance.random()
    try:
        if what < 0.02: replace(number); settle(number)
        elif what < 0.08: changed(number, chance.choice(["truncate", "append", "write"]))
        else: look()
    except Exception as e:
        raise AssertionError(f"step {step} with LARDER_SEED={seed}") from e
print(done)
"#;

#[test]
fn random_reads_find_what_the_files_have() {
    if !possible() {
        return;
    }
    let seed = std::env::var("LARDER_SEED").unwrap_or_else(|_| SEED.to_owned());
    let ways = [
        "lifetime=1h",
        "lifetime=1h,nopassthrough",
        "lifetime=1h,noopen",
        "lifetime=1h,files=2,threads=1",
    ];
    for way in ways {
        let source = Scratch::new("random");
        let mount = Mount::of(&source.path().to_string_lossy(), &["-o", way]);
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", STEPS]).arg(source.path()).arg(mount.path()).args([&seed, "3000"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{way}: {said}");
        println!("{way}: {}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
