"""The management library, through nvidia-ml-py and cuda-core: one device, which is the driver's."""

import pynvml
from cuda.core import Device, system


def main():
    pynvml.nvmlInit()
    assert pynvml.nvmlDeviceGetCount() == 1
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    device = Device()
    assert pynvml.nvmlDeviceGetName(handle) == device.name
    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-" + device.uuid.removeprefix("GPU-"), device.uuid
    assert pynvml.nvmlDeviceGetCudaComputeCapability(handle) == tuple(device.compute_capability)
    bus = pynvml.nvmlDeviceGetPciInfo(handle).busId
    assert bus.lower().endswith(device.pci_bus_id.lower()), (bus, device.pci_bus_id)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
    assert 0 < memory.total == memory.free + memory.used
    device.set_current()
    try:
        pynvml.nvmlDeviceGetPowerUsage(handle)
        raise AssertionError("a processor of the host told its power")
    except pynvml.NVMLError_NotSupported:
        pass
    assert system.get_num_devices() == 1
    assert system.get_user_mode_driver_version() == (13, 5)
    pynvml.nvmlShutdown()
    print("PASS management", bus)


main()
