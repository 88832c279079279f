"""Finds files by listing alone: one listing for a source's whole span of days, never a request per file."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

from assets.raw_files.keys import RAW_PREFIX, day_prefix
from assets.raw_files.plan import ListedObject
from resources.bucket import Bucket, StoredObject

CONCURRENCY = 8


def list_wanted(bucket: Bucket, first_day: date, last_day: date) -> list[ListedObject]:
    """Every object below raw/ whose day is first_day to last_day (UTC), of all sources, in key order.

    Makes one request for the countries, one per country, and one per source and page of 1,000 keys of
    those days: days sort as text, so a listing starts at the first and ends behind the last. Raises as
    `Bucket` does; a listing that breaks is never an empty one.
    """
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        countries = bucket.folders(RAW_PREFIX)
        categories = [folder for below in pool.map(bucket.folders, countries) for folder in below]
        listings = pool.map(lambda prefix: _days(bucket, prefix, first_day, last_day), categories)
        return [listed for listing in listings for listed in listing]


def list_partition(bucket: Bucket, country: str, category: str, day: date) -> list[ListedObject]:
    """Every object of one partition. Raises as `Bucket` does."""
    return [_listed(stored) for stored in bucket.objects(day_prefix(country, category, day))]


def _days(bucket: Bucket, prefix: str, first_day: date, last_day: date) -> list[ListedObject]:
    behind = f"{prefix}date={last_day.isoformat()}/\uffff"
    found = []
    for stored in bucket.objects(prefix, start_after=f"{prefix}date={first_day.isoformat()}/"):
        if stored.key > behind:
            break
        found.append(_listed(stored))
    return found


def _listed(stored: StoredObject) -> ListedObject:
    return ListedObject(stored.key, stored.etag, stored.size, stored.modified)
