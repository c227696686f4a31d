"""Publishers' formats: each module turns one of them into samples."""
