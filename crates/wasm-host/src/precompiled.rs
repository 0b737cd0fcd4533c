//! Compiled components that come with the program, so that even a machine that never ran the program need not compile
//! these components.
//!
//! Packing a distribution appends the components to the program's file, after the part that the system loads. The
//! components are compiled for the oldest processors that the program supports ([`settings::portable`]), and compressed
//! together, because most of their code is the same. A footer contains their lengths and their SHA-256. A program that
//! cargo built has no footer.
//!
//! wasmtime trusts an artefact as it trusts itself. These artefacts are trusted like the program, because they are part
//! of its file. Only [`Precompiled::of_this_program`] reads such artefacts. wasmtime refuses artefacts of another
//! version of itself, with other settings, or for processors with more instructions than this processor; such
//! components are compiled again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use berth_model::Digest;
use lzma_rust2::{Lzma2Options, Lzma2Reader, Lzma2Writer};
use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::{binary::Binary, settings};

/// The end of the file of a program with artefacts.
const MAGIC: &[u8; 16] = b"berth artefacts\n";

/// The bytes of the footer: the compressed and the uncompressed length, the digest of the uncompressed bytes, and
/// [`MAGIC`].
const FOOTER_BYTES: usize = 8 + 8 + DIGEST_BYTES + MAGIC.len();

/// The bytes before each artefact: the component's digest, and the length of the artefact.
const HEAD_BYTES: usize = DIGEST_BYTES + 8;

const DIGEST_BYTES: usize = 32;

/// The preset of `xz -6`. A higher preset makes little difference and takes more memory at every start.
const PRESET: u32 = 6;
const DICTIONARY_BYTES: u32 = 8 << 20;

/// The maximum number of uncompressed bytes: several times the size of all built-ins. A damaged length must not use up
/// the memory of the machine.
const MAX_UNCOMPRESSED: usize = 256 << 20;

/// The artefacts of this program, uncompressed: some 30 MB. The caller should drop this value once all components are
/// loaded.
pub struct Precompiled {
    bytes: Vec<u8>,
    /// The place of each component's artefact in `bytes`, by the component's digest.
    artefacts: BTreeMap<Digest, Range<usize>>,
}

/// The reason why a program cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("the component {component} cannot be compiled: {reason}")]
    Compile { component: String, reason: String },
    #[error("the program cannot be copied")]
    Io(#[from] io::Error),
}

/// The sizes of the parts of a packed program, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSizes {
    pub program: u64,
    /// The compressed artefacts, as they are in the file.
    pub artefacts: u64,
    /// The uncompressed artefacts, as they are in memory.
    pub uncompressed: u64,
}

impl std::fmt::Debug for Precompiled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Precompiled({} components)", self.artefacts.len())
    }
}

impl Precompiled {
    /// The artefacts that are appended to this program's file; `None` if the file has no artefacts.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn of_this_program() -> io::Result<Option<Self>> {
        Self::read(&mut File::open("/proc/self/exe")?)
    }

    fn read(file: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let Some(place) = Place::find(file)? else { return Ok(None) };
        file.seek(SeekFrom::Start(place.start))?;
        let mut compressed = vec![0; place.compressed];
        file.read_exact(&mut compressed)?;
        if *Sha256::digest(&compressed) != place.digest {
            return Err(torn());
        }
        let mut bytes = vec![0; place.uncompressed];
        Lzma2Reader::new(compressed.as_slice(), DICTIONARY_BYTES, None).read_exact(&mut bytes)?;
        Self::parse(bytes).map(Some)
    }

    fn parse(bytes: Vec<u8>) -> io::Result<Self> {
        let mut artefacts = BTreeMap::new();
        let mut at = 0;
        while at < bytes.len() {
            let head = bytes.get(at..at + HEAD_BYTES).ok_or_else(torn)?;
            let (digest, length) = head.split_first_chunk::<DIGEST_BYTES>().ok_or_else(torn)?;
            let length: [u8; 8] = length.try_into().map_err(|_| torn())?;
            let start = at + HEAD_BYTES;
            let end = usize::try_from(u64::from_le_bytes(length)).ok().and_then(|length| start.checked_add(length));
            let end = end.filter(|end| *end <= bytes.len()).ok_or_else(torn)?;
            artefacts.insert(Digest::new(*digest), start..end);
            at = end;
        }
        Ok(Self { bytes, artefacts })
    }

    /// The component with this digest, if it is available and fits the engine.
    pub(crate) fn load(&self, engine: &wasmtime::Engine, digest: Digest) -> Option<Component> {
        let artefact = self.bytes.get(self.artefacts.get(&digest)?.clone())?;
        #[expect(unsafe_code, reason = "these bytes are a part of this program")]
        // SAFETY: the compiler wrote the bytes when the program was packed, and a user who can change the program's file can
        // change its code as well.
        let component = unsafe { Component::deserialize(engine, artefact) };
        component.inspect_err(|error| tracing::debug!("a precompiled component does not fit this engine: {error}")).ok()
    }
}

/// The place of the artefacts in a file.
struct Place {
    start: u64,
    compressed: usize,
    uncompressed: usize,
    /// The digest of the uncompressed bytes.
    digest: [u8; DIGEST_BYTES],
}

impl Place {
    fn find(file: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        let size = file.seek(SeekFrom::End(0))?;
        let Some(end) = size.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
        file.seek(SeekFrom::Start(end))?;
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact(&mut footer)?;
        let Some((compressed, rest)) = footer.split_first_chunk::<8>() else { return Ok(None) };
        let Some((uncompressed, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        let Some((digest, magic)) = rest.split_first_chunk::<DIGEST_BYTES>() else { return Ok(None) };
        if magic != MAGIC {
            return Ok(None);
        }
        let length = |bytes: &[u8; 8]| {
            let length = usize::try_from(u64::from_le_bytes(*bytes)).ok();
            length.filter(|length| *length <= MAX_UNCOMPRESSED).ok_or_else(torn)
        };
        let (compressed, uncompressed) = (length(compressed)?, length(uncompressed)?);
        let start = end.checked_sub(compressed as u64).ok_or_else(torn)?;
        Ok(Some(Self { start, compressed, uncompressed, digest: *digest }))
    }
}

fn torn() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the program's file is damaged where its compiled components are")
}

/// Writes this program to a file, followed by the compiled components. Artefacts that were appended to this program
/// before are left out.
///
/// # Errors
/// A component cannot be compiled, or a file cannot be read or written.
pub fn pack_this_program(components: &[Binary], to: &Path) -> Result<PackedSizes, PackError> {
    let artefacts = compile(components)?;
    let mut own = File::open("/proc/self/exe")?;
    let program = match Place::find(&mut own)? {
        Some(place) => place.start,
        None => own.metadata()?.len(),
    };
    own.seek(SeekFrom::Start(0))?;
    // A running program cannot be written to, but another file can take its name.
    let unfinished = to.with_extension("part");
    let mut packed = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&unfinished)?;
    io::copy(&mut own.take(program), &mut packed)?;
    let compressed = append(&artefacts, &mut packed)?;
    fs::rename(unfinished, to)?;
    Ok(PackedSizes { program, artefacts: compressed, uncompressed: artefacts.len() as u64 })
}

/// All artefacts, each with its head.
fn compile(components: &[Binary]) -> Result<Vec<u8>, PackError> {
    let failed = |component: &Binary, reason: wasmtime::Error| PackError::Compile {
        component: component.name().to_owned(),
        reason: format!("{reason:#}"),
    };
    let mut all = Vec::new();
    let Some(first) = components.first() else { return Ok(all) };
    let engine = settings::portable().and_then(|config| wasmtime::Engine::new(&config));
    let engine = engine.map_err(|error| failed(first, error))?;
    for component in components {
        let artefact = engine.precompile_component(component.bytes()).map_err(|error| failed(component, error))?;
        all.extend_from_slice(component.digest().as_bytes());
        all.extend_from_slice(&(artefact.len() as u64).to_le_bytes());
        all.extend_from_slice(&artefact);
    }
    Ok(all)
}

/// Compresses the artefacts, and returns the number of compressed bytes.
fn append(artefacts: &[u8], to: &mut impl Write) -> io::Result<u64> {
    let mut options = Lzma2Options::with_preset(PRESET);
    options.lzma_options.dict_size = DICTIONARY_BYTES;
    let mut encoder = Lzma2Writer::new(Vec::new(), options);
    encoder.write_all(artefacts)?;
    let compressed = encoder.finish()?;
    to.write_all(&compressed)?;
    to.write_all(&(compressed.len() as u64).to_le_bytes())?;
    to.write_all(&(artefacts.len() as u64).to_le_bytes())?;
    to.write_all(&Sha256::digest(&compressed))?;
    to.write_all(MAGIC)?;
    Ok(compressed.len() as u64)
}

#[cfg(test)]
mod tests;
