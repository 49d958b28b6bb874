"""OpenMM: forces and energy of a small box of charged particles, CUDA against the Reference platform."""

import numpy as np
import openmm as mm


def forces(platform):
    random = np.random.default_rng(9)
    system = mm.System()
    nonbonded = mm.NonbondedForce()
    nonbonded.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
    nonbonded.setCutoffDistance(0.9)
    for index in range(64):
        system.addParticle(39.9)
        nonbonded.addParticle(0.2 * (-1) ** index, 0.3, 0.5)
    system.setDefaultPeriodicBoxVectors((2, 0, 0), (0, 2, 0), (0, 0, 2))
    bonds = mm.HarmonicBondForce()
    bonds.addBond(0, 1, 0.5, 1000)
    system.addForce(nonbonded)
    system.addForce(bonds)
    grid = np.stack(np.meshgrid(*[np.arange(4) * 0.5] * 3), -1).reshape(-1, 3)
    context = mm.Context(system, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName(platform))
    context.setPositions(grid + random.random((64, 3)) * 0.1)
    state = context.getState(getForces=True, getEnergy=True)
    return state.getForces(asNumpy=True)._value, state.getPotentialEnergy()._value


def main():
    (ours, energy), (theirs, expected) = forces("CUDA"), forces("Reference")
    np.testing.assert_allclose(energy, expected, rtol=1e-4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-2)
    print("PASS openmm", mm.version.version)


main()
