"""DataLoader: batches of a dataset, collated here or by worker processes; PyTorch's names and order of parameters."""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import islice, repeat
from typing import Any

import numpy as np

from jitgraph import random
from jitgraph.data.dataset import (
    BatchSampler,
    DataSettingError,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    is_iterable,
)
from jitgraph.data.workers import ENDED, Workers, batches
from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor, wrap_as
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.scalars import is_scalar, leaf_types, require_plain_in

# ----------------------------------------------------------------------
# Batches made of items.


def collate(batch: Sequence[Any]) -> Any:
    """One batch from items: tensors, arrays and numbers are stacked; strings stay a list.

    Tuples, lists and dicts are collated by member; JitgraphError where they differ in length, for arrays of different
    shapes, and for what is none of these.
    """
    if not batch:
        raise JitgraphError("collate: a batch of no items\n  hint: a sampler gave an empty list of numbers")
    first = batch[0]
    if isinstance(first, Tensor):
        return wrap_as(stack(list(batch)).value, *batch)
    if isinstance(first, Mapping):
        return _like(first, {key: collate([item[key] for item in batch]) for key in first})
    if isinstance(first, tuple | list):
        if any(len(item) != len(first) for item in batch):
            raise JitgraphError(f"collate: items of {sorted({len(item) for item in batch})} members in one batch")
        members = [collate(list(each)) for each in zip(*batch, strict=True)]
        return _of_kind(first, members)
    if isinstance(first, str | bytes):
        return list(batch)
    if is_scalar(first):
        return asarray(list(batch))
    if _is_array(first):
        return _stacked([_array(item) for item in batch])
    raise JitgraphError(
        f"collate makes batches of tensors, arrays, numbers, strings, and tuples, lists and dicts of these, not of a "
        f"{type(first).__name__}\n  hint: collate_fn= makes a batch of a list of any items"
    )


def _stacked(arrays: list[Any]) -> Tensor:
    require_plain_in(arrays, leaf_types(arrays))
    shapes = {tuple(array.shape): None for array in arrays}
    if len(shapes) > 1:
        shown = " and ".join(map(str, [*shapes][:3]))
        hint = "pad them to one shape, or pass a collate_fn= that does"
        raise JitgraphError(f"collate: items of the shapes {shown} in one batch\n  hint: {hint}")
    if any(isinstance(array, Tensor) for array in arrays):
        return stack(arrays)
    return asarray(np.stack(arrays))


default_collate = collate


def _of_kind(like: Any, members: list[Any]) -> Any:
    """A tuple, named or not, or a list, as ``like`` is one."""
    return type(like)(*members) if hasattr(like, "_fields") else type(like)(members)


def _like(first: Mapping[Any, Any], members: dict[Any, Any]) -> Any:
    """The members in a dict of the class of ``first``, with its default where it has one; a dict for other mappings."""
    if type(first) is dict or not isinstance(first, MutableMapping):
        return members
    result = copy.copy(first)
    result.update(members)
    return result


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray | np.generic) or hasattr(item, "__array__") or hasattr(item, "__dlpack__")


def _array(item: Any) -> Any:
    """An array of any library for NumPy to stack; what NumPy has no dtype for, as PyTorch's bfloat16, as a tensor."""
    plain = item.detach() if hasattr(item, "detach") else item
    if isinstance(plain, np.ndarray | np.generic):
        return plain
    try:
        return np.asarray(plain)
    except (TypeError, RuntimeError):
        return asarray(plain)


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in tuples, lists and dicts too; other values as they are."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple | list):
        members = [default_convert(value) for value in data]
        return _of_kind(data, members)
    if isinstance(data, np.ndarray | np.generic) or hasattr(data, "__dlpack__"):
        return asarray(_array(data))
    return data


# ----------------------------------------------------------------------
# DataLoader: batches of a dataset, made here or by worker processes; PyTorch's names and order of parameters.


class Fetch:
    """How a batch is made of a dataset; it is sent to workers once."""

    def __init__(self, batched: bool, batch_size: int | None, drop_last: bool, collate_fn: Any) -> None:
        self.batched, self.batch_size, self.drop_last = batched, batch_size, drop_last
        self.collate_fn = collate_fn

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        """What gives the batch of a request: of numbers, or the next one of an iterable dataset, then ENDED."""
        if is_iterable(dataset):
            return self._of_iterator(iter(dataset))
        return lambda places: self._of_indices(dataset, places)

    def _of_indices(self, dataset: Any, indices: Any) -> Any:
        if not self.batched:
            return (self.collate_fn or default_convert)(dataset[indices])
        if isinstance(dataset, TensorDataset) and self.collate_fn is None:
            return dataset[list(indices)] if len(indices) else dataset[:0]
        if hasattr(dataset, "__getitems__"):
            return (self.collate_fn or collate)(dataset.__getitems__(indices))
        items = []
        for index in indices:
            try:
                items.append(dataset[index])
            except Exception as error:
                error.add_note(f"at item {index} of the dataset")
                raise
        return (self.collate_fn or collate)(items)

    def _of_iterator(self, items: Iterator[Any]) -> Callable[[Any], Any]:
        def next_batch(_: Any) -> Any:
            if not self.batched:
                for item in items:
                    return (self.collate_fn or default_convert)(item)
                return ENDED
            assert self.batch_size is not None
            batch = list(islice(items, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return ENDED
            return (self.collate_fn or collate)(batch)

        return next_batch


class DataLoader:
    """Batches of a dataset, in order, in a random order, or in that of a sampler.

    Orders come from ``jg.random``, or from ``generator``, or with ``seed`` from a stream of the loader's own: the n-th
    iteration of two loaders with one seed is the same, however many workers there are. ``num_workers`` processes make
    the batches, ``prefetch_factor`` (2) each ahead of use; with ``persistent_workers`` they stay for the next
    iteration. An error in one is raised here with its traceback; one that dies or takes longer than ``timeout``
    seconds is a JitgraphError. Workers are forked unless ``multiprocessing_context`` says otherwise.
    ``batch_size=None`` gives items. ``pin_memory`` and ``pin_memory_device`` change nothing: copies to a GPU go
    through locked pages anyway; nor does ``in_order``, as batches always come in order.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: random.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
    ) -> None:
        for name, least, value in (
            ("batch_size", 1, batch_size),
            ("num_workers", 0, num_workers),
            ("prefetch_factor", 1, prefetch_factor),
        ):
            if value is not None and (not hasattr(value, "__index__") or value < least):
                raise DataSettingError(f"DataLoader: {name} must be an integer of at least {least}, not {value!r}")
        if not timeout >= 0:
            raise DataSettingError(f"DataLoader: timeout must not be negative, and is {timeout}")
        if num_workers == 0 and (prefetch_factor is not None or persistent_workers or timeout):
            raise DataSettingError("DataLoader: prefetch_factor, persistent_workers and timeout need num_workers")
        if generator is not None and seed is not None:
            raise DataSettingError("DataLoader: generator= and seed= say the same; give one")
        self.dataset, self.num_workers, self.collate_fn = dataset, num_workers, collate_fn
        self.pin_memory, self.timeout, self.worker_init_fn = pin_memory, timeout, worker_init_fn
        self.prefetch_factor, self.persistent_workers = prefetch_factor or 2, persistent_workers
        self.generator = random.Generator(seed) if seed is not None else generator
        self.multiprocessing_context = multiprocessing_context
        self.pin_memory_device, self.in_order = pin_memory_device, in_order
        self._iterable = iterable = is_iterable(dataset)
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise DataSettingError("an IterableDataset has its own order: no shuffle, sampler or batch_sampler")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise DataSettingError("batch_sampler= stands for batch_size, shuffle, sampler and drop_last")
        if sampler is not None and shuffle:
            raise DataSettingError("sampler= gives the order; it takes no shuffle=True")
        if batch_size is None and drop_last:
            raise DataSettingError("batch_size=None gives items, of which none is dropped")
        self.batch_size = None if batch_sampler is not None else batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        if sampler is None and not iterable:
            if shuffle:
                self.sampler = RandomSampler(dataset, generator=self.generator)
            else:
                self.sampler = SequentialSampler(dataset)
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not iterable:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self._workers: Workers | None = None

    def __len__(self) -> int:
        if self._iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def _requests(self) -> Iterator[Any]:
        if self._iterable:
            return repeat(())
        return iter(self.batch_sampler if self.batch_sampler is not None else self.sampler)

    def __iter__(self) -> Iterator[Any]:
        batched = self.batch_size is not None or self.batch_sampler is not None
        fetch = Fetch(batched, self.batch_size, self.drop_last, self.collate_fn)
        # drawn in every case, so that the order does not depend on the number of workers
        seed = int(random.randint(0, 2**32, (), dtype="int64", generator=self.generator).item())
        requests = self._requests()
        iterator = self._by_workers(fetch, requests, seed) if self.num_workers else self._here(fetch, requests)
        return self._counted(iterator) if self._iterable else iterator

    def _here(self, fetch: Fetch, requests: Iterator[Any]) -> Iterator[Any]:
        make = fetch(self.dataset)
        for request in requests:
            batch = make(request)
            if batch is ENDED:
                return
            yield batch

    def _counted(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What was found, with a warning where an iterable dataset gives more than its length says."""
        try:
            expected = len(self)
        except (TypeError, NotImplementedError):
            expected = None
        number = 0
        for number, batch in enumerate(iterator, 1):
            if expected is not None and number == expected + 1:
                text = f"the dataset has a length of {expected} batches, and gives more: with several workers each one"
                warnings.warn(f"{text} gives its items, unless it takes a share by get_worker_info()", stacklevel=3)
            yield batch

    def _by_workers(self, fetch: Fetch, requests: Iterator[Any], seed: int) -> Iterator[Any]:
        workers, self._workers = self._workers or self._started(fetch), None  # another iterator starts its own
        exhausted = False
        try:
            workers.begin(seed)
            yield from batches(workers, requests, self.prefetch_factor)
            exhausted = True
        finally:
            if self.persistent_workers and exhausted and self._workers is None:
                self._workers = workers
            else:
                workers.end()

    def _started(self, fetch: Fetch) -> Workers:
        if multiprocessing.current_process().daemon:
            raise JitgraphError(
                f"DataLoader: num_workers={self.num_workers} in a worker of another loader, which starts no processes\n"
                "  hint: num_workers=0 there"
            )
        start_method = self.multiprocessing_context
        start_method = "fork" if start_method is None else start_method
        context = multiprocessing.get_context(start_method) if isinstance(start_method, str) else start_method
        return Workers(self.num_workers, fetch, self.dataset, self.worker_init_fn, context, self.timeout)
