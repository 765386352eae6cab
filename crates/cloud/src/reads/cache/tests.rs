//! The cache: what it keeps, what it gives up, what a restart finds, and that damage is never served.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use siltstone::{ErrorKind, FileSystem, Metadata, RandomAccessFile, WritableFile};

use super::*;
use crate::fickle::Fickle;

const EXTENT: u32 = 8 << 10;

fn object(number: u32) -> TableObject {
    TableObject { name: format!("db/s/{number}.ldb"), bytes: 100_000, crc32c: number }
}

/// The bytes that an extent has, no two extents alike.
fn content(number: u32, extent: u32) -> Bytes {
    let len = (100_000 - extent * EXTENT).min(EXTENT);
    let seed = u64::from(number) << 32 | u64::from(extent);
    let words = (0..len.div_ceil(8))
        .flat_map(|at| (seed ^ u64::from(at)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    words.take(len as usize).collect::<Vec<u8>>().into()
}

fn open_in(env: &Env, capacity_bytes: u64) -> Result<Arc<ExtentCache>> {
    ExtentCache::open(
        env,
        Path::new("cache"),
        CacheOptions { capacity_bytes, extent_bytes: EXTENT },
    )
}

fn keep(cache: &ExtentCache, number: u32, extent: u32) {
    cache.keep(&object(number), extent, content(number, extent));
}

/// Fills it table after table, and waits for the disk.
fn fill(cache: &ExtentCache, numbers: Range<u32>) {
    for number in numbers {
        (0..13).for_each(|extent| keep(cache, number, extent));
        cache.settle();
    }
}

/// True if the extent is there; it must be what was kept.
fn is_there(cache: &ExtentCache, number: u32, extent: u32) -> bool {
    let found = cache.read(&object(number), extent);
    if let Some(found) = &found {
        assert!(*found == content(number, extent), "extent {extent} of {number} is another");
    }
    found.is_some()
}

fn segments(env: &Env) -> Vec<PathBuf> {
    let names = env.file_system.list(Path::new("cache")).unwrap();
    let mut paths: Vec<_> = names
        .iter()
        .filter(|name| name.ends_with(".extents"))
        .map(|name| Path::new("cache").join(name))
        .collect();
    paths.sort();
    paths
}

fn read_file(env: &Env, path: &Path) -> Vec<u8> {
    let file = env.file_system.open(path).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn write_file(env: &Env, path: &Path, bytes: &[u8]) {
    let mut file = env.file_system.create(path, Site::TableCreate).unwrap();
    file.append(bytes, Site::TableAppend).unwrap();
    file.close(Site::TableClose).unwrap();
}

#[test]
fn what_is_kept_is_found_at_once_and_after_a_restart() {
    let env = Env::memory();
    let cache = open_in(&env, 4 << 20).unwrap();
    for extent in 0..13 {
        assert!(!is_there(&cache, 1, extent));
        keep(&cache, 1, extent);
        assert!(is_there(&cache, 1, extent), "before it is written");
    }
    cache.settle();
    assert!((0..13).all(|extent| is_there(&cache, 1, extent)));
    assert_eq!(cache.cached_bytes(&object(1)), 100_000);
    assert_eq!(open_in(&env, 4 << 20).unwrap_err().kind(), ErrorKind::Locked);
    drop(cache);

    let cache = open_in(&env, 4 << 20).unwrap();
    assert!((0..13).all(|extent| is_there(&cache, 1, extent)));
    assert!(!is_there(&cache, 2, 0));
    let other = TableObject { crc32c: 7, ..object(1) };
    assert_eq!(cache.read(&other, 0), None, "another table under the same name");
    assert_eq!(cache.read(&object(1), 13), None, "there is no such extent");
    cache.keep(&object(3), 12, Bytes::from_static(b"too short"));
    assert_eq!(cache.read(&object(3), 12), None);
    cache.forget(&object(1));
    assert!((0..13).all(|extent| !is_there(&cache, 1, extent)));
    assert_eq!((cache.stats().extents, cache.stats().damaged), (0, 0));
}

#[test]
fn any_part_of_an_extent_can_be_read() {
    let env = Env::memory();
    let cache = open_in(&env, 1 << 20).unwrap();
    for extent in [0, 12] {
        keep(&cache, 1, extent);
    }
    cache.settle();
    for extent in [0, 12] {
        let all = content(1, extent);
        let places = [0, 1, 1000, 4095, 4096, 4097, all.len() - 1, all.len()];
        for (from, to) in places.iter().flat_map(|from| places.iter().map(move |to| (*from, *to))) {
            if from < to && to <= all.len() {
                let mut buf = vec![0; to - from];
                assert!(cache.copy((object(1).key(), extent), from as u32, &mut buf, true));
                assert!(buf == all[from..to], "{from}..{to} of {extent}");
            }
        }
        let mut longer = vec![0; all.len() + 1];
        assert!(!cache.copy((object(1).key(), extent), 0, &mut longer, true));
    }
}

#[test]
fn the_oldest_go_but_for_what_is_read() {
    let env = Env::memory();
    let cache = open_in(&env, 4 << 20).unwrap();
    fill(&cache, 0..2);
    for number in 2..200 {
        assert!((0..13).all(|extent| is_there(&cache, 0, extent)), "{number}");
        fill(&cache, number..number + 1);
    }
    let stats = cache.stats();
    assert!(!is_there(&cache, 1, 0) && is_there(&cache, 199, 0), "{stats:?}");
    assert!(stats.bytes <= 4 << 20 && stats.bytes > 3 << 20, "{stats:?}");
    let on_disk: u64 = segments(&env).iter().map(|path| read_file(&env, path).len() as u64).sum();
    assert_eq!(stats.bytes, on_disk);
    assert!(stats.carried > 0 && stats.evicted > 0 && stats.segments <= 17, "{stats:?}");
    drop(cache);
    let cache = open_in(&env, 1 << 20).unwrap();
    assert!(cache.stats().bytes <= 1 << 20, "it may become smaller");
    assert!(is_there(&cache, 199, 12));
}

/// All that is in it is read all the time, and still something new finds room.
#[test]
fn what_is_new_finds_room_whatever_is_read() {
    let env = Env::memory();
    let cache = open_in(&env, 1 << 20).unwrap();
    for number in 0..100 {
        fill(&cache, number..number + 1);
        assert!((0..13).any(|extent| is_there(&cache, number, extent)), "{number}");
        for old in 0..number {
            (0..13).for_each(|extent| drop(cache.read(&object(old), extent)));
        }
        assert!(cache.stats().bytes <= 1 << 20);
    }
}

#[test]
fn scans_wash_nothing_out() {
    let env = Env::memory();
    let cache = open_in(&env, 4 << 20).unwrap();
    let passes_by = |number, extent| {
        let bytes = content(number, extent);
        cache.keep_part((object(number).key(), extent), &bytes, 0..bytes.len(), Fill::PassedBy);
        cache.settle();
    };
    (0..13).for_each(|extent| passes_by(0, extent));
    assert!((0..13).all(|extent| is_there(&cache, 0, extent)), "as long as there is room");
    fill(&cache, 1..60);
    let held: Vec<u32> = (1..60).filter(|number| is_there(&cache, *number, 3)).collect();
    for number in 1000..1200 {
        (0..13).for_each(|extent| passes_by(number, extent));
    }
    assert!(held.iter().all(|number| is_there(&cache, *number, 3)));
    assert!(cache.stats().refused > 2000, "{:?}", cache.stats());
    (0..2).for_each(|_| passes_by(1199, 5));
    assert!(is_there(&cache, 1199, 5), "what comes by again is kept");
}

/// A crash leaves any prefix of what was written last, and perhaps something else behind it.
#[test]
fn a_segment_cut_anywhere_serves_what_is_whole() {
    let env = Env::memory();
    let cache = open_in(&env, 1 << 20).unwrap();
    (0..4).for_each(|extent| keep(&cache, 1, extent));
    drop(cache);
    let [path] = segments(&env).try_into().unwrap();
    let whole = read_file(&env, &path);
    let record = layout::record_bytes(EXTENT) as usize;
    let records_end = 20 + 4 * record;
    for cut in (0..whole.len()).step_by(509).chain(whole.len() - 40..whole.len()) {
        for tail in [0, 300] {
            write_file(&env, &path, &[&whole[..cut], &vec![0; tail][..]].concat());
            let cache = open_in(&env, 1 << 20).unwrap();
            let found = (0..4).filter(|extent| is_there(&cache, 1, *extent)).count();
            let expected = cut.saturating_sub(20).min(records_end - 20) / record;
            assert_eq!(found, expected, "cut at {cut}");
            keep(&cache, 2, 0);
            cache.settle();
            assert!(is_there(&cache, 2, 0));
            drop(cache);
            for path in segments(&env) {
                env.file_system.remove_file(&path, Site::TableRemove).unwrap();
            }
        }
    }
}

/// Every byte of a finished and of an unfinished segment changed, in a cache that is opened with it and in one that is
/// open already: what is found is what was kept, and no more is lost than what lay there.
#[test]
fn no_changed_byte_is_ever_served() {
    let env = Env::memory();
    let cache = open_in(&env, 1 << 20).unwrap();
    let last = 12;
    [0, last].iter().for_each(|extent| keep(&cache, 1, *extent));
    drop(cache);
    let [path] = segments(&env).try_into().unwrap();
    let whole = read_file(&env, &path);
    let records = 20 + (layout::record_bytes(EXTENT) + layout::record_bytes(1696)) as usize;
    let check = |bytes: &[u8], at: usize, finished: bool| {
        write_file(&env, &path, bytes);
        let cache = open_in(&env, 1 << 20).unwrap();
        let found = [0, last].map(|extent| is_there(&cache, 1, extent));
        let lost = found.iter().filter(|found| !**found).count();
        let lost_at_most = if at < 20 || !finished { 2 } else { 1 };
        assert!(lost <= lost_at_most, "{lost} lost by byte {at}");
        assert!(!(20..records).contains(&at) || lost > 0 || is_unused(at), "byte {at} is checked");
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x40;
        check(&changed, at, true);
    }
    for at in 0..records {
        let mut changed = whole[..records].to_vec();
        changed[at] ^= 0x40;
        check(&changed, at, false);
    }

    // And under an open cache, whose index knows nothing of it.
    let mut changed = whole.clone();
    for at in 20..records {
        write_file(&env, &path, &whole);
        let inner =
            Inner::new(env.clone(), Path::new("cache"), 1 << 20, ExtentBytes::new(EXTENT).unwrap());
        inner.find_segments().unwrap();
        changed[at] ^= 1;
        let place = inner.index().find(&(object(1).key(), 0), true).unwrap().0;
        write_file(&env, &path, &changed);
        let file = env.file_system.open(&path).unwrap();
        let mut buf = vec![0; EXTENT as usize];
        let is_sound =
            layout::read_part(&*file, &(object(1).key(), 0), place, 0, &mut buf).unwrap();
        assert!(!is_sound || buf == content(1, 0), "byte {at}");
        changed[at] ^= 1;
    }
}

/// The heads of records count only where there are no contents.
fn is_unused(at: usize) -> bool {
    let second = 20 + layout::record_bytes(EXTENT) as usize;
    [20, second].iter().any(|head| (*head..head + 28).contains(&at))
}

/// Contents that are sound by their checksum, and say anything; and files that are anything.
#[test]
fn hostile_segments_are_survived() {
    let env = Env::memory();
    let cache = open_in(&env, 1 << 20).unwrap();
    (0..3).for_each(|extent| keep(&cache, 1, extent));
    drop(cache);
    let [path] = segments(&env).try_into().unwrap();
    let whole = read_file(&env, &path);
    let records = 20 + 3 * layout::record_bytes(EXTENT) as usize;
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 32) as u32
    };
    for round in 0..2000 {
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            let numbers =
                [0, 20, 28, EXTENT, EXTENT + 1, u32::MAX, u32::MAX - 30, next(), next() % 30_000];
            let mut number = || numbers[next() as usize % numbers.len()];
            let entry = |_| {
                let place = layout::Place { segment: 1, at: number(), len: number() };
                ((object(1).key(), number() % 4), place)
            };
            let entries: Vec<_> = (0..4).map(entry).collect();
            bytes.truncate(records);
            bytes.extend(layout::contents(1, &entries));
        } else {
            let at = next() as usize % bytes.len();
            let len = (next() as usize % 300).min(bytes.len() - at);
            bytes[at..at + len].iter_mut().for_each(|byte| *byte = next() as u8);
        }
        write_file(&env, &path, &bytes);
        let cache = open_in(&env, 1 << 20).unwrap();
        (0..4).for_each(|extent| assert!(!is_there(&cache, 1, extent) || extent < 3));
        keep(&cache, 1, 3);
        assert!(is_there(&cache, 1, 3));
        drop(cache);
        for other in segments(&env).iter().filter(|other| **other != path) {
            env.file_system.remove_file(other, Site::TableRemove).unwrap();
        }
    }
}

#[test]
fn what_is_not_ours_stays_and_what_is_strange_goes() {
    let env = Env::memory();
    drop(open_in(&env, 1 << 20).unwrap());
    let names = ["7.extents", "0000000007.extent", "notes.txt", "99999999999.extents"];
    names.iter().for_each(|name| write_file(&env, &Path::new("cache").join(name), b"x"));
    write_file(&env, Path::new("cache/0000000007.extents"), b"SILTEXT1 but no more");
    let cache = open_in(&env, 1 << 20).unwrap();
    assert_eq!((cache.stats().damaged, cache.stats().segments), (1, 0));
    fill(&cache, 0..1);
    drop(cache);
    let other = CacheOptions { capacity_bytes: 1 << 20, extent_bytes: 4 << 10 };
    let cache = ExtentCache::open(&env, Path::new("cache"), other).unwrap();
    assert_eq!(cache.stats().extents, 0, "other extents");
    let left = env.file_system.list(Path::new("cache")).unwrap();
    assert!(names.iter().all(|name| left.iter().any(|left| left == name)), "{left:?}");
    for wrong in [(1000, 4096), (1 << 20, 5000)] {
        let (capacity_bytes, extent_bytes) = wrong;
        let options = CacheOptions { capacity_bytes, extent_bytes };
        let refused = ExtentCache::open(&env, Path::new("other"), options);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

/// A disk that is full while somebody says so.
struct Filling {
    files: Arc<dyn FileSystem>,
    is_full: Arc<AtomicBool>,
}

struct FillingFile(Box<dyn WritableFile>, Arc<AtomicBool>);

fn no_space(is_full: &AtomicBool) -> Result<()> {
    match is_full.load(Relaxed) {
        true => Err(Error::new(ErrorKind::NoSpace, "as the test wants it")),
        false => Ok(()),
    }
}

impl WritableFile for FillingFile {
    fn append(&mut self, data: &[u8], site: Site) -> Result<()> {
        if self.1.load(Relaxed) {
            self.0.append(&data[..data.len() / 2], site)?;
        }
        no_space(&self.1)?;
        self.0.append(data, site)
    }
    fn sync(&mut self, _: Site) -> Result<()> {
        panic!("a cache syncs nothing");
    }
    fn close(&mut self, site: Site) -> Result<()> {
        no_space(&self.1)?;
        self.0.close(site)
    }
}

impl FileSystem for Filling {
    fn create(&self, path: &Path, site: Site) -> Result<Box<dyn WritableFile>> {
        no_space(&self.is_full)?;
        let file = self.files.create(path, site)?;
        Ok(Box::new(FillingFile(file, Arc::clone(&self.is_full))))
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.files.open(path)
    }
    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.files.metadata(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.files.list(dir)
    }
    fn create_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.files.create_dir(dir, site)
    }
    fn remove_dir(&self, dir: &Path, site: Site) -> Result<()> {
        self.files.remove_dir(dir, site)
    }
    fn remove_file(&self, path: &Path, site: Site) -> Result<()> {
        self.files.remove_file(path, site)
    }
    fn rename(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.files.rename(from, to, site)
    }
    fn hard_link(&self, from: &Path, to: &Path, site: Site) -> Result<()> {
        self.files.hard_link(from, to, site)
    }
    fn sync_dir(&self, _: &Path, _: Site) -> Result<()> {
        panic!("a cache syncs nothing");
    }
    fn lock(&self, path: &Path, site: Site) -> Result<Box<dyn FileLock>> {
        self.files.lock(path, site)
    }
}

/// Others need the disk more.
#[test]
fn on_a_full_disk_the_cache_gives_back_what_it_has() {
    let (is_full, clock) = (Arc::new(AtomicBool::new(false)), Arc::new(Fickle::default()));
    let memory = Env::memory();
    let files = Filling { files: memory.file_system.clone(), is_full: is_full.clone() };
    let env = Env { file_system: Arc::new(files), clock: clock.clone(), ..memory };
    let cache = open_in(&env, 1 << 20).unwrap();
    fill(&cache, 0..20);
    let before = cache.stats();
    assert!(before.evicted > 0 && is_there(&cache, 19, 0));
    for number in 0..20 {
        (0..13).for_each(|extent| drop(cache.read(&object(number), extent)));
    }
    is_full.store(true, Relaxed);
    for turn in 20..40 {
        fill(&cache, turn..turn + 1);
        clock.clock.advance(30_000);
    }
    let stats = cache.stats();
    assert_eq!((stats.extents, stats.bytes, segments(&env).len()), (0, 0, 0), "{stats:?}");
    assert!(stats.failed_writes >= 20, "{stats:?}");
    is_full.store(false, Relaxed);
    fill(&cache, 40..41);
    assert!((0..13).all(|extent| is_there(&cache, 40, extent)));
}

#[test]
fn on_a_full_disk_caching_stops_and_reads_go_on() {
    let (is_full, clock) = (Arc::new(AtomicBool::new(false)), Arc::new(Fickle::default()));
    let memory = Env::memory();
    let files = Filling { files: memory.file_system.clone(), is_full: is_full.clone() };
    let env = Env { file_system: Arc::new(files), clock: clock.clone(), ..memory };
    let cache = open_in(&env, 4 << 20).unwrap();
    fill(&cache, 0..4);
    is_full.store(true, Relaxed);
    fill(&cache, 4..6);
    let stats = cache.stats();
    assert_eq!((stats.failed_writes, stats.dropped), (1, 25), "it does not try all the time");
    assert!((0..13).all(|extent| is_there(&cache, 3, extent) && !is_there(&cache, 4, extent)));

    is_full.store(false, Relaxed);
    fill(&cache, 4..5);
    assert!(!is_there(&cache, 4, 0), "it rests");
    clock.clock.advance(30_000);
    fill(&cache, 4..5);
    assert!((0..13).all(|extent| is_there(&cache, 4, extent)));
    drop(cache);
    let cache = open_in(&env, 4 << 20).unwrap();
    assert!((0..13).all(|extent| is_there(&cache, 3, extent) && is_there(&cache, 4, extent)));
}
