//! Kubernetes' CEL libraries for network addresses ("Kubernetes IP address library" and "Kubernetes CIDR library" in the
//! documentation of CEL in Kubernetes). Addresses with a zone and IPv4 addresses in IPv6 notation are refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::types::{CelBool, CelInt, CelString, Type},
};

use super::library_value::library_value;

static IP: Type = Type::new_unspecified_type("net.IP");
static CIDR: Type = Type::new_unspecified_type("net.CIDR");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address(IpAddr);

/// An address and the length of its prefix in bits. The bits after the prefix need not be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    n_bits: u8,
}

library_value!(Address: IP);

library_value!(Network: CIDR);

impl Address {
    fn parse(text: &str) -> Option<Self> {
        let address: IpAddr = text.parse().ok()?;
        let is_mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        (!is_mapped).then_some(Self(address))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.rsplit_once('/')?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit()) && (length == "0" || !length.starts_with('0'));
        let Address(address) = Address::parse(address)?;
        let n_bits: u8 = length.parse().ok().filter(|_| is_number)?;
        (n_bits <= width(address)).then_some(Self { address, n_bits })
    }

    fn masked(self) -> Self {
        let n_host_bits = u32::from(width(self.address).saturating_sub(self.n_bits));
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(n_host_bits).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(n_host_bits).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, ..self }
    }

    /// Whether every address of `other` is in this network.
    fn contains(self, other: Self) -> bool {
        self.n_bits <= other.n_bits
            && self.address.is_ipv4() == other.address.is_ipv4()
            && self.masked() == Self { n_bits: self.n_bits, ..other }.masked()
    }
}

/// The number of bits in the address.
fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(IP.to_owned())?;
    env.add_type(CIDR.to_owned())?;
    add_overload!(env, fn ip: (CelString) -> Result<Address>)?;
    add_overload!(env, fn is_ip: (CelString) -> CelBool, name = "isIP")?;
    add_overload!(env, fn is_canonical: (CelString) -> Result<CelBool>, name = "ip.isCanonical")?;
    add_overload!(env, fn text_of_ip: (Address) -> CelString, name = "string")?;
    add_member_overload!(env, fn family: (Address) -> CelInt)?;
    add_member_overload!(env, fn is_unspecified: (Address) -> CelBool)?;
    add_member_overload!(env, fn is_loopback: (Address) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_multicast: (Address) -> CelBool)?;
    add_member_overload!(env, fn is_link_local_unicast: (Address) -> CelBool)?;
    add_member_overload!(env, fn is_global_unicast: (Address) -> CelBool)?;
    add_overload!(env, fn cidr: (CelString) -> Result<Network>)?;
    add_overload!(env, fn is_cidr: (CelString) -> CelBool, name = "isCIDR")?;
    add_overload!(env, fn text_of_cidr: (Network) -> CelString, name = "string")?;
    add_member_overload!(env, fn contains_ip: (Network, Address) -> CelBool, name = "containsIP")?;
    add_member_overload!(env, fn contains_text: (Network, CelString) -> Result<CelBool>, name = "containsIP")?;
    add_member_overload!(env, fn contains_cidr: (Network, Network) -> CelBool, name = "containsCIDR")?;
    add_member_overload!(env, fn contains_cidr_text: (Network, CelString) -> Result<CelBool>, name = "containsCIDR")?;
    add_member_overload!(env, fn ip_of: (Network) -> Address, name = "ip")?;
    add_member_overload!(env, fn masked: (Network) -> Network)?;
    add_member_overload!(env, fn prefix_length: (Network) -> CelInt)
}

fn ip(text: &CelString<'_>) -> Result<Address, ExecutionError> {
    let invalid = || ExecutionError::function_error("ip", format!("invalid IP address {:?}", text.inner()));
    Address::parse(text.inner()).ok_or_else(invalid)
}

fn is_ip(text: &CelString<'_>) -> CelBool {
    Address::parse(text.inner()).is_some().into()
}

fn is_canonical(text: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok((ip(text)?.0.to_string() == text.inner()).into())
}

fn text_of_ip(this: &Address) -> CelString<'static> {
    this.0.to_string().into()
}

fn family(this: &Address) -> CelInt {
    let family: i64 = if this.0.is_ipv4() { 4 } else { 6 };
    family.into()
}

fn is_unspecified(this: &Address) -> CelBool {
    this.0.is_unspecified().into()
}

fn is_loopback(this: &Address) -> CelBool {
    this.0.is_loopback().into()
}

fn is_link_local_multicast(this: &Address) -> CelBool {
    let answer = match this.0 {
        IpAddr::V4(address) => address.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    answer.into()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_link_local_unicast(this: &Address) -> CelBool {
    is_link_local(this.0).into()
}

fn is_global_unicast(this: &Address) -> CelBool {
    let Address(address) = *this;
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast;
    (!is_special && !is_link_local(address)).into()
}

fn cidr(text: &CelString<'_>) -> Result<Network, ExecutionError> {
    let invalid = || ExecutionError::function_error("cidr", format!("invalid network address {:?}", text.inner()));
    Network::parse(text.inner()).ok_or_else(invalid)
}

fn is_cidr(text: &CelString<'_>) -> CelBool {
    Network::parse(text.inner()).is_some().into()
}

fn text_of_cidr(this: &Network) -> CelString<'static> {
    format!("{}/{}", this.address, this.n_bits).into()
}

fn contains_ip(this: &Network, other: &Address) -> CelBool {
    this.contains(Network { address: other.0, n_bits: width(other.0) }).into()
}

fn contains_text(this: &Network, other: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_ip(this, &ip(other)?))
}

fn contains_cidr(this: &Network, other: &Network) -> CelBool {
    this.contains(*other).into()
}

fn contains_cidr_text(this: &Network, other: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(contains_cidr(this, &cidr(other)?))
}

fn ip_of(this: &Network) -> Address {
    Address(this.address)
}

fn masked(this: &Network) -> Network {
    this.masked()
}

fn prefix_length(this: &Network) -> CelInt {
    i64::from(this.n_bits).into()
}
