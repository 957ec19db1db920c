"""Project stage: images for boards, emulators, and what a run of them tells."""
