"""T-SQL's types and what is done with values: conversion, arithmetic, order."""
