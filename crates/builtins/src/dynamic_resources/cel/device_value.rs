//! A device as the value of the CEL variable `device`.

use std::collections::{BTreeMap, HashMap};

use cel::{
    ExecutionError,
    common::{
        traits::{Container, Indexer, Iterable, Iterator as ElementIterator, Sizer},
        types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString, MAP_TYPE, Type},
        value::{CowVal, Val},
    },
};

use super::{quantity::QuantityValue, semantic_version::SemanticVersion};
use crate::dynamic_resources::objects::{Attribute, Device};

type Entries<'a> = HashMap<CelMapKey<'a>, Box<dyn Val + 'a>>;
type Domains<'a> = BTreeMap<&'a str, Entries<'a>>;

/// The device as a CEL value. Attributes that are lists are included if `with_lists`.
pub(super) fn of<'a>(driver: &'a str, device: &'a Device, with_lists: bool) -> Box<dyn Val + 'a> {
    let mut attributes = Domains::new();
    for (name, attribute) in &device.attributes {
        let list = || if with_lists { list_value(attribute) } else { None };
        if let Some(value) = attribute_value(attribute).or_else(list) {
            insert(&mut attributes, driver, name, value);
        }
    }
    let mut capacity = Domains::new();
    for (name, amount) in &device.capacity {
        insert(&mut capacity, driver, name, Box::new(QuantityValue(amount.value.clone())));
    }
    let mut fields = Entries::new();
    fields.insert(CelMapKey::from("driver"), Box::new(CelString::from(driver)));
    fields.insert(CelMapKey::from("attributes"), Box::new(DomainMap::new(attributes)));
    fields.insert(CelMapKey::from("capacity"), Box::new(DomainMap::new(capacity)));
    let shareable = CelBool::from(device.is_shareable());
    fields.insert(CelMapKey::from("allowMultipleAllocations"), Box::new(shareable));
    Box::new(CelMap::from(fields))
}

/// Inserts a value under its name. A name without a domain belongs to the domain of the driver.
fn insert<'a>(domains: &mut Domains<'a>, driver: &'a str, name: &'a str, value: Box<dyn Val + 'a>) {
    let (domain, name) = name.split_once('/').unwrap_or((driver, name));
    domains.entry(domain).or_default().insert(CelMapKey::from(name), value);
}

fn attribute_value(attribute: &Attribute) -> Option<Box<dyn Val + '_>> {
    if let Some(number) = attribute.int {
        return Some(Box::new(CelInt::from(number)));
    }
    if let Some(flag) = attribute.bool {
        return Some(Box::new(CelBool::from(flag)));
    }
    if let Some(text) = &attribute.string {
        return Some(Box::new(CelString::from(text.as_str())));
    }
    let version = SemanticVersion::parse(attribute.version.as_deref()?)?;
    Some(Box::new(version))
}

fn list_value(attribute: &Attribute) -> Option<Box<dyn Val + '_>> {
    fn list<'a, T>(elements: &'a [T], value: impl Fn(&'a T) -> Option<Box<dyn Val + 'a>>) -> Box<dyn Val + 'a> {
        let values: Vec<Box<dyn Val + 'a>> = elements.iter().filter_map(value).collect();
        Box::new(CelList::from(values))
    }
    if let Some(numbers) = &attribute.ints {
        return Some(list(numbers, |number| Some(Box::new(CelInt::from(*number)))));
    }
    if let Some(flags) = &attribute.bools {
        return Some(list(flags, |flag| Some(Box::new(CelBool::from(*flag)))));
    }
    if let Some(texts) = &attribute.strings {
        return Some(list(texts, |text| Some(Box::new(CelString::from(text.as_str())))));
    }
    let versions = attribute.versions.as_ref()?;
    Some(list(versions, |version| Some(Box::new(SemanticVersion::parse(version)?))))
}

/// A map from domain to its attributes or capacities. The value of an unknown domain is an empty map.
#[derive(Debug)]
struct DomainMap<'a> {
    known: CelMap<'a>,
    unknown: CelMap<'a>,
}

impl<'a> DomainMap<'a> {
    fn new(domains: Domains<'a>) -> Self {
        let boxed = |entries| -> Box<dyn Val + 'a> { Box::new(CelMap::from(entries)) };
        let known: Entries<'a> =
            domains.into_iter().map(|(domain, entries)| (CelMapKey::from(domain), boxed(entries))).collect();
        Self { known: CelMap::from(known), unknown: CelMap::from(Entries::new()) }
    }
}

impl Val for DomainMap<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(&self.known)
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_iterable<'b, 'v>(&'b self) -> Option<&'b (dyn Iterable + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(&self.known)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        self.known.equals(other)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(DomainMap { known: self.known.clone(), unknown: self.unknown.clone() })
    }
}

impl Indexer for DomainMap<'_> {
    fn get<'b, 'v>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        match self.known.get(key) {
            Err(ExecutionError::NoSuchKey(_)) => Ok(CowVal::Borrowed(&self.unknown)),
            found => found,
        }
    }

    fn steal<'v>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

impl Iterable for DomainMap<'_> {
    fn iter<'b, 'v>(&'b self) -> Box<dyn ElementIterator<'b, 'v> + 'b>
    where
        Self: 'v,
    {
        self.known.iter()
    }
}
