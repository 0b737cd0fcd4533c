//! Limits the number of questions to the API server that the requests of one client may cause. Each unknown token
//! causes one question. Each path that a caller has not requested recently also causes one question. Known answers cost
//! nothing. The addresses of one IPv6 network of 64 bits count as one client, because a machine can have any number of
//! addresses in its network.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// The number of questions per second. A client with one token causes two questions every ten seconds for each path.
const PER_SECOND: f64 = 5.0;

/// The maximum number of questions that one client may cause at once. The number is enough for the first requests of a
/// scraper or an operator.
const BURST: f64 = 20.0;

/// The maximum number of clients that are counted at the same time.
const MAX_CLIENTS: usize = 1024;

/// The bits of an IPv6 address that name its network.
const IPV6_NETWORK: u128 = !0 << 64;

#[derive(Debug, Default)]
pub(super) struct ReviewRate(Mutex<HashMap<IpAddr, Bucket>>);

#[derive(Debug)]
struct Bucket {
    /// The number of questions that were left at that time.
    left: f64,
    then: Instant,
}

impl ReviewRate {
    /// Whether a request from this address may cause one more question.
    pub(super) fn admits(&self, address: IpAddr, now: Instant) -> bool {
        let client = client_of(address);
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MAX_CLIENTS {
            // A full bucket need not be kept.
            buckets.retain(|_, bucket| bucket.left_at(now) < BURST);
        }
        if buckets.len() >= MAX_CLIENTS && !buckets.contains_key(&client) {
            return false;
        }
        let bucket = buckets.entry(client).or_insert(Bucket { left: BURST, then: now });
        let left = bucket.left_at(now);
        let is_admitted = left >= 1.0;
        *bucket = Bucket { left: if is_admitted { left - 1.0 } else { left }, then: now };
        is_admitted
    }
}

/// The address that identifies a client.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK)),
    }
}

impl Bucket {
    fn left_at(&self, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(self.then).as_secs_f64();
        seconds.mul_add(PER_SECOND, self.left).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    #[test]
    fn one_address_cannot_use_up_the_questions_of_others() {
        let (rate, start) = (ReviewRate::default(), Instant::now());
        let address = |last: u32| IpAddr::V4(Ipv4Addr::from_bits(last));
        let admitted = |address, now| (0..100).filter(|_| rate.admits(address, now)).count();
        assert_eq!(admitted(address(1), start), 20);
        assert_eq!(admitted(address(2), start), 20);
        assert_eq!(admitted(address(1), start + Duration::from_secs(2)), 10);
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_client() {
        let (rate, now) = (ReviewRate::default(), Instant::now());
        let admits = |address: &str| rate.admits(address.parse().expect("an address"), now);
        let network = |last: u32| admits(&format!("2001:db8:1:2:{:x}::{last:x}", last % 7));
        assert_eq!((0..100).filter(|last| network(*last)).count(), 20);
        assert!(admits("2001:db8:1:3::1"), "that is another network");
        // An IPv4 client on a socket for both protocols is counted by its own address.
        assert_eq!((0..30).filter(|_| admits("::ffff:192.0.2.1")).count(), 20);
        assert!(!admits("192.0.2.1"));
        assert!(admits("::ffff:192.0.2.2"));
    }

    #[test]
    fn so_many_addresses_are_counted_and_those_that_are_quiet_are_forgotten() {
        let (rate, start) = (ReviewRate::default(), Instant::now());
        let n_admitted = |range: std::ops::Range<u32>, now| {
            range.filter(|last| rate.admits(IpAddr::V4(Ipv4Addr::from_bits(*last)), now)).count()
        };
        assert_eq!(n_admitted(0..2000, start), MAX_CLIENTS);
        assert_eq!(n_admitted(2000..2010, start + Duration::from_secs(1)), 10);
    }
}
