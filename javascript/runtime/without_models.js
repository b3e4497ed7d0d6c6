// Replaces models.js in a build of Sandmill without inference.

/** In a build without inference a job has no models. */
export const names = () => [];

export const load = () => {
    throw new Error("this sandmill was built without inference: use a build with the feature `inference`");
};
