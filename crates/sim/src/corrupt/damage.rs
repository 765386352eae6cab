//! What is done to a specimen: one change of one file, or of the set of files.

use std::borrow::Cow;
use std::fmt;

use super::specimen::{Kind, Specimen};
use crate::Dice;

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Nothing: the control.
    None,
    /// One bit turned.
    Flip {
        at: usize,
        bit: u8,
    },
    /// The file ends after so many bytes.
    Cut(usize),
    /// A sector overwritten.
    Fill {
        at: usize,
        bytes: usize,
        with: u8,
    },
    /// Two sectors in each other's place.
    Swap {
        a: usize,
        b: usize,
        bytes: usize,
    },
    /// A sector written with the content of another one.
    Misdirected {
        from: usize,
        to: usize,
        bytes: usize,
    },
    /// A sector with what it held before: of a file still growing, only its first half; and where
    /// another file of the kind is, that one's.
    Stale {
        at: usize,
        bytes: usize,
        of: Option<usize>,
    },
    /// The last bytes once more.
    Doubled(usize),
    /// Bytes that mean nothing behind the end; or zeros.
    Garbage {
        bytes: usize,
        zeros: bool,
    },
    Remove,
    /// A folder under the file's name.
    Folder,
    /// Two files under each other's names.
    SwapWith(usize),
    /// Another file's content under this name.
    CopyOf(usize),
    /// The file of the same name of another database, made in the same way.
    FromTwin,
    /// One more file, of noise or with this file's content.
    Extra {
        name: &'static str,
        copy: bool,
    },
}

/// What lies under a name.
#[derive(Clone)]
pub(super) enum Content<'a> {
    Bytes(Cow<'a, [u8]>),
    Folder,
}

/// A damaged specimen, name by name.
pub(super) type Image<'a> = Vec<(String, Content<'a>)>;

/// A specimen's file, by its place in the list, and what is done to it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) file: usize,
    pub(super) damage: Damage,
}

impl Case {
    /// How a case is named in reports, and asked for.
    pub(super) fn name(&self, specimen: &Specimen) -> String {
        format!("{}/{}/{}", specimen.name, specimen.files[self.file].0, self.damage)
    }

    pub(super) fn file_name<'a>(&self, specimen: &'a Specimen) -> &'a str {
        &specimen.files[self.file].0
    }
}

impl Damage {
    /// Bytes within the file have changed, and nothing else.
    pub(super) fn is_in_place(&self) -> bool {
        use Damage::{Fill, Flip, Misdirected, Stale, Swap};
        matches!(self, Flip { .. } | Fill { .. } | Swap { .. } | Misdirected { .. } | Stale { .. })
    }

    /// Whole files are gone, or others are there.
    pub(super) fn is_of_file_set(&self) -> bool {
        use Damage::{CopyOf, Extra, Folder, FromTwin, Remove, SwapWith};
        matches!(self, Remove | Folder | SwapWith(_) | CopyOf(_) | FromTwin | Extra { .. })
    }

    /// The file's new content; `None` if the change is not one of its bytes.
    pub(super) fn bytes<'a>(&self, specimen: &'a Specimen, file: usize) -> Option<Cow<'a, [u8]>> {
        let (name, old) = &specimen.files[file];
        let old = &old[..];
        let mut new = Cow::Borrowed(old);
        match *self {
            Damage::None | Damage::Remove | Damage::Folder | Damage::Extra { .. } => return None,
            Damage::Flip { at, bit } => new.to_mut()[at] ^= 1 << bit,
            Damage::Cut(bytes) => new = Cow::Borrowed(&old[..bytes]),
            Damage::Fill { at, bytes, with } => {
                let end = old.len().min(at + bytes);
                new.to_mut()[at..end].fill(with);
            }
            Damage::Swap { a, b, bytes } => {
                let new = new.to_mut();
                new[a..a + bytes].copy_from_slice(&old[b..b + bytes]);
                new[b..b + bytes].copy_from_slice(&old[a..a + bytes]);
            }
            Damage::Misdirected { from, to, bytes } => {
                new.to_mut()[to..to + bytes].copy_from_slice(&old[from..from + bytes]);
            }
            Damage::Stale { at, bytes, of: None } => {
                let end = old.len().min(at + bytes);
                new.to_mut()[at + (end - at) / 2..end].fill(0);
            }
            Damage::Stale { at, bytes, of: Some(other) } => {
                let other = &specimen.files[other].1;
                let end = old.len().min(other.len()).min(at + bytes);
                new.to_mut()[at..end].copy_from_slice(&other[at..end]);
            }
            Damage::Doubled(bytes) => new.to_mut().extend_from_slice(&old[old.len() - bytes..]),
            Damage::Garbage { bytes, zeros: true } => new.to_mut().resize(old.len() + bytes, 0),
            Damage::Garbage { bytes, zeros: false } => new.to_mut().extend(noise(bytes)),
            Damage::SwapWith(other) | Damage::CopyOf(other) => {
                new = Cow::Borrowed(&specimen.files[other].1);
            }
            Damage::FromTwin => {
                new = Cow::Borrowed(specimen.twin.as_ref()?.file(name)?);
            }
        }
        Some(new)
    }
}

/// The specimen with this damage.
pub(super) fn image<'a>(specimen: &'a Specimen, case: &Case) -> Image<'a> {
    let whole = specimen
        .files
        .iter()
        .map(|(name, bytes)| (name.clone(), Content::Bytes(Cow::Borrowed(&bytes[..]))));
    let mut image: Image<'a> = whole.collect();
    if let Some(bytes) = case.damage.bytes(specimen, case.file) {
        image[case.file].1 = Content::Bytes(bytes);
    }
    match case.damage {
        Damage::Remove => drop(image.remove(case.file)),
        Damage::Folder => image[case.file].1 = Content::Folder,
        Damage::SwapWith(other) => {
            image[other].1 = Content::Bytes(Cow::Borrowed(&specimen.files[case.file].1));
        }
        Damage::Extra { name, copy } => {
            let copied = || Cow::Borrowed(&specimen.files[case.file].1[..]);
            let bytes = if copy { copied() } else { Cow::Owned(noise(100)) };
            image.push((name.to_owned(), Content::Bytes(bytes)));
        }
        _ => {}
    }
    image
}

/// The same noise every time, and no zeros: they have a meaning of their own.
fn noise(bytes: usize) -> Vec<u8> {
    let mut dice = Dice::new(0x5eed_4015_e000);
    (0..bytes).map(|_| 1 + dice.roll(255) as u8).collect()
}

/// Sectors of a disk, and smaller ones, since the files are small.
const SECTORS: [usize; 2] = [512, 64];
/// Files beyond this are damaged at chosen places only.
const EVERYWHERE_BYTES_MAX: usize = 8 << 10;

/// Every damage of a specimen that there is.
pub(super) fn cases(specimen: &Specimen) -> Vec<Case> {
    let mut cases = Vec::new();
    for file in 0..specimen.files.len() {
        let mut add = |damage| cases.push(Case { file, damage });
        add(Damage::None);
        in_bytes(specimen, file, &mut add);
        in_sectors(specimen, file, &mut add);
        in_tail(specimen, file, &mut add);
        in_file_set(specimen, file, &mut add);
    }
    cases
}

fn in_bytes(specimen: &Specimen, file: usize, add: &mut impl FnMut(Damage)) {
    let len = specimen.files[file].1.len();
    for at in places(len) {
        (0..8).for_each(|bit| add(Damage::Flip { at, bit }));
        add(Damage::Cut(at));
    }
}

/// Every byte; of a large file those near a block's border, and some others.
fn places(len: usize) -> impl Iterator<Item = usize> {
    let near_border = |at: usize| (at + 40) % (32 << 10) < 80;
    (0..len).filter(move |at| len <= EVERYWHERE_BYTES_MAX || near_border(*at) || at % 53 == 0)
}

fn in_sectors(specimen: &Specimen, file: usize, add: &mut impl FnMut(Damage)) {
    let len = specimen.files[file].1.len();
    let alike = alike(specimen, file);
    for bytes in SECTORS.into_iter().filter(|bytes| len <= 128 * bytes) {
        for at in (0..len).step_by(bytes) {
            for with in [0, 0xa5] {
                add(Damage::Fill { at, bytes, with });
            }
            add(Damage::Stale { at, bytes, of: None });
            for &other in alike.iter().filter(|other| at < specimen.files[**other].1.len()) {
                add(Damage::Stale { at, bytes, of: Some(other) });
            }
        }
        for a in (0..len.saturating_sub(bytes - 1)).step_by(bytes) {
            for b in (a + bytes..len.saturating_sub(bytes - 1)).step_by(bytes) {
                add(Damage::Swap { a, b, bytes });
                add(Damage::Misdirected { from: a, to: b, bytes });
                add(Damage::Misdirected { from: b, to: a, bytes });
            }
        }
    }
}

/// Other files of the same kind.
fn alike(specimen: &Specimen, file: usize) -> Vec<usize> {
    let kind = |file: usize| Kind::of(&specimen.files[file].0);
    (0..specimen.files.len()).filter(|other| *other != file && kind(*other) == kind(file)).collect()
}

fn in_tail(specimen: &Specimen, file: usize, add: &mut impl FnMut(Damage)) {
    let len = specimen.files[file].1.len();
    for bytes in [1, 7, 19, 64, 512, len].into_iter().filter(|bytes| (1..=len).contains(bytes)) {
        add(Damage::Doubled(bytes));
    }
    for bytes in [1, 6, 7, 8, 100, 4096] {
        [false, true].into_iter().for_each(|zeros| add(Damage::Garbage { bytes, zeros }));
    }
}

fn in_file_set(specimen: &Specimen, file: usize, add: &mut impl FnMut(Damage)) {
    add(Damage::Remove);
    add(Damage::Folder);
    for other in alike(specimen, file) {
        if other > file {
            add(Damage::SwapWith(other));
        }
        add(Damage::CopyOf(other));
    }
    let name = &specimen.files[file].0;
    if specimen.twin.as_ref().is_some_and(|twin| twin.file(name).is_some()) {
        add(Damage::FromTwin);
    }
    let (names, copy): (&[&'static str], bool) = match Kind::of(name) {
        Kind::Wal => (&["000900.log", "000001.log"], true),
        Kind::Table => (&["000900.ldb", "000900.sst", "000001.ldb"], true),
        Kind::Manifest => (&["MANIFEST-000900", "MANIFEST-000001"], true),
        Kind::Current => (&STRANGERS, false),
    };
    names.iter().for_each(|name| add(Damage::Extra { name, copy }));
}

/// Files of noise that somebody else has put there, or a crash has left.
const STRANGERS: [&str; 10] = [
    "notes.txt",
    "CURRENT.bak",
    "LOG",
    "000001.dbtmp",
    "000900.dbtmp",
    "000001.ldb",
    "000900.ldb",
    "000001.log",
    "000900.log",
    "MANIFEST-000900",
];

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::None => f.write_str("none"),
            Damage::Flip { at, bit } => write!(f, "flip:{at}.{bit}"),
            Damage::Cut(bytes) => write!(f, "cut:{bytes}"),
            Damage::Fill { at, bytes, with } => write!(f, "fill:{at}+{bytes}={with:#04x}"),
            Damage::Swap { a, b, bytes } => write!(f, "swap:{a}+{bytes},{b}"),
            Damage::Misdirected { from, to, bytes } => write!(f, "copy:{from}+{bytes},{to}"),
            Damage::Stale { at, bytes, of: None } => write!(f, "half:{at}+{bytes}"),
            Damage::Stale { at, bytes, of: Some(of) } => write!(f, "stale:{at}+{bytes},file{of}"),
            Damage::Doubled(bytes) => write!(f, "doubled:{bytes}"),
            Damage::Garbage { bytes, zeros: false } => write!(f, "garbage:{bytes}"),
            Damage::Garbage { bytes, zeros: true } => write!(f, "zeros:{bytes}"),
            Damage::Remove => f.write_str("removed"),
            Damage::Folder => f.write_str("folder"),
            Damage::SwapWith(other) => write!(f, "swapped,file{other}"),
            Damage::CopyOf(other) => write!(f, "replaced,file{other}"),
            Damage::FromTwin => f.write_str("foreign"),
            Damage::Extra { name, copy: false } => write!(f, "beside:{name}"),
            Damage::Extra { name, copy: true } => write!(f, "copied:{name}"),
        }
    }
}
