"""What every file is: schemas, units, digests, versions, errors. Imports none of ours."""
